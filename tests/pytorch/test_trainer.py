"""Compare mpsgraph.torch.Trainer with PyTorch's own steps: losses, weights, and optimizer state.

The tests use float64 where values must be equal.
"""

import copy

import numpy as np
import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.
nn, F = torch.nn, torch.nn.functional
STEPS = 5


def pytorch_steps(module, loss, optimizer, x, *labels):
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        found = loss(module(x), *labels)
        found.backward()
        optimizer.step()
        losses.append(found.item())
    return losses


def assert_trains_alike(module, loss, make, x, *labels, tolerance=1e-9):
    ours = copy.deepcopy(module)
    theirs_optimizer, ours_optimizer = make(module.parameters()), make(ours.parameters())
    expected = pytorch_steps(module, loss, theirs_optimizer, x, *labels)
    trainer = mg.torch.Trainer(ours, loss, ours_optimizer)
    assert np.allclose([float(trainer.train_step(x, *labels)) for _ in range(STEPS)], expected, rtol=tolerance)
    trainer.sync()
    for name, value in module.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(trainer.state_dict()[name], value, rtol=tolerance, atol=tolerance)
    # PyTorch's own step continues from the returned state.
    assert np.allclose(
        pytorch_steps(ours, loss, ours_optimizer, x, *labels),
        pytorch_steps(module, loss, theirs_optimizer, x, *labels),
        rtol=tolerance,
    )


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).double()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2),
    "centered": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trainer_optimizer_steps_match_pytorch(name: str):
    module = perceptron()
    x, labels = torch.randn(16, 8).double(), torch.randint(0, 5, (16,))
    # The step count and bias corrections are float32 in the graph, as in PyTorch.
    assert_trains_alike(module, F.cross_entropy, OPTIMIZERS[name], x, labels, tolerance=1e-6)


class Recurrent(nn.Module):
    def __init__(self, kind, **how):
        super().__init__()
        self.recurrent = kind(6, 8, batch_first=True, **how)
        self.head = nn.Linear(8 * (2 if how.get("bidirectional") else 1), 3)

    def forward(self, x):
        return self.head(self.recurrent(x)[0][:, -1])


class Text(nn.Module):
    def __init__(self, words=50, size=32, length=16):
        super().__init__()
        self.words, self.places = nn.Embedding(words, size, padding_idx=0), nn.Embedding(length, size)
        block = nn.TransformerEncoderLayer(size, 4, 4 * size, dropout=0.0, batch_first=True, activation="gelu")
        self.block, self.head = block, nn.Linear(size, words, bias=False)

    def forward(self, x):
        length = x.shape[1]
        mask = torch.triu(torch.full((length, length), -torch.inf, dtype=torch.float64), 1)
        return self.head(self.block(self.words(x) + self.places(torch.arange(length)), mask)).transpose(1, 2)


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 5), nn.Linear(8, 5)

    def forward(self, x):
        return self.b(x) * self.a(x).detach()


def images(*layers):
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), *layers, nn.Flatten())


MODULES = {
    "convolutions": lambda: images(
        nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=8, stride=2, padding=1),
        nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
    ),
    "transposed": lambda: images(
        nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1), nn.AvgPool2d(2), nn.Conv2d(4, 8, 3, padding="same"),
        nn.GroupNorm(4, 8), nn.AdaptiveAvgPool2d(1),
    ),
    "activations": lambda: images(
        nn.Softplus(), nn.ELU(), nn.Mish(), nn.SiLU(), nn.LogSigmoid(), nn.Hardsigmoid(), nn.Hardtanh(),
        nn.LeakyReLU(), nn.ReLU6(), nn.AdaptiveAvgPool2d(1),
    ),
    "lstm": lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": lambda: Recurrent(nn.GRU, num_layers=2, bidirectional=True),
    "gru without bias": lambda: Recurrent(nn.GRU, bias=False),
    "text": Text,
    "detached": Detached,
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules_train_as_in_pytorch(name: str):
    torch.manual_seed(1)
    module = MODULES[name]().double()
    sizes = {"lstm": (4, 7, 6), "gru": (4, 7, 6), "gru without bias": (4, 7, 6), "detached": (4, 8)}
    x = torch.randint(0, 50, (4, 16)) if name == "text" else torch.randn(sizes.get(name, (4, 3, 16, 16))).double()
    classes = module(x).shape[1]
    labels = torch.randint(0, classes, (4, 16) if name == "text" else (4,))
    assert_trains_alike(module, F.cross_entropy, lambda p: torch.optim.SGD(p, lr=0.05), x, labels, tolerance=1e-8)


def test_batch_size_and_learning_rate_can_change_between_steps():
    module = perceptron()
    reference = copy.deepcopy(module)
    ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (module, reference))
    trainer = mg.torch.Trainer(module, F.cross_entropy, ours)
    for count, rate in ((16, 0.1), (7, 0.05), (16, 0.2)):
        x, labels = torch.randn(count, 8).double(), torch.randint(0, 5, (count,))
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["lr"] = rate
        theirs.zero_grad()
        loss = F.cross_entropy(reference(x), labels)
        loss.backward()
        theirs.step()
        assert float(trainer.train_step(x, labels)) == pytest.approx(loss.item(), rel=1e-6)


def test_existing_optimizer_state_is_used():
    module = perceptron()
    x, labels = torch.randn(16, 8).double(), torch.randint(0, 5, (16,))
    reference = copy.deepcopy(module)
    ours, theirs = (torch.optim.Adam(m.parameters(), lr=1e-2) for m in (module, reference))
    expected = pytorch_steps(reference, F.cross_entropy, theirs, x, labels)
    expected += pytorch_steps(reference, F.cross_entropy, theirs, x, labels)
    pytorch_steps(module, F.cross_entropy, ours, x, labels)
    trainer = mg.torch.Trainer(module, F.cross_entropy, ours)
    got = [float(trainer.train_step(x, labels)) for _ in range(STEPS)]
    assert np.allclose(got, expected[STEPS:], rtol=1e-6)
    module.load_state_dict(perceptron().state_dict())
    ours.state.clear()
    trainer.load()
    assert np.allclose([float(trainer.train_step(x, labels)) for _ in range(STEPS)], expected[:STEPS], rtol=1e-6)


def test_dropout_differs_per_step_and_repeats_by_seed():
    def losses(seed):
        module = nn.Sequential(nn.Dropout(0.5), nn.Linear(100, 1, bias=False))
        nn.init.ones_(module[1].weight)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
        trainer = mg.torch.Trainer(module, lambda y: y.mean(), optimizer, seed=seed)
        return [float(trainer.train_step(torch.ones(20, 100))) for _ in range(3)]

    first = losses(1)
    assert len(set(first)) == 3 and losses(1) == first and losses(2) != first
    assert np.mean(first) == pytest.approx(100, rel=0.1)


def test_unsupported_modules_losses_and_optimizers_raise():
    module = nn.Linear(2, 3)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(mg.UnsupportedError, match="does not support the optimizer Adagrad: use"):
        mg.torch.Trainer(module, F.mse_loss, torch.optim.Adagrad(module.parameters()))
    with pytest.raises(mg.GraphError, match="parameters that do not belong to the module"):
        mg.torch.Trainer(nn.Linear(2, 3), F.mse_loss, sgd)
    with pytest.raises(mg.GraphError, match="expects a torch.nn.Module"):
        mg.torch.Trainer("module", F.mse_loss, sgd)
    trainer = mg.torch.Trainer(module, lambda y: y, sgd)
    with pytest.raises(mg.GraphError, match=r"must be a scalar, got shape \(4, 3\)"):
        trainer.train_step(torch.ones(4, 2))
    with pytest.raises(mg.DTypeError, match="must be PyTorch tensors"):
        trainer.train_step([[1.0, 1.0]])
    before = {name: value.clone() for name, value in module.state_dict().items()}
    hashed = mg.torch.Trainer(module, lambda y: y.sum() + torch.hash_tensor(y).float(), sgd)
    with pytest.raises(mg.UnsupportedError, match="hash_tensor"):
        hashed.train_step(torch.ones(4, 2))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def regression():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.2), nn.BatchNorm1d(16), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    return mg.torch.Trainer(module, F.mse_loss, optimizer, seed=0)


X = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
Y = X.sum(1, keepdim=True)


def test_fit_evaluate_and_predict_agree_with_pytorch():
    trainer = regression()
    history = trainer.fit(X, Y, epochs=4, batch_size=16, validation=(X, Y), progress=False)
    assert trainer.step == 16 and len(history.loss) == 16 and history.epoch == 4
    assert history.validation[-1][1]["loss"] < history.validation[0][1]["loss"]
    trainer.sync()
    trainer.module.eval()
    with torch.no_grad():
        expected = trainer.module(X)
    np.testing.assert_allclose(trainer.predict(X), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(trainer.predict(X, batch_size=20), expected, rtol=1e-4, atol=1e-5)
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(F.mse_loss(expected, Y).item(), rel=1e-4)


def test_fit_accepts_data_loaders_and_callbacks():
    trainer = regression()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=32)
    stopping = mg.training.callbacks.EarlyStopping("loss", patience=1, min_delta=1e6)
    history = trainer.fit(loader, epochs=9, callbacks=[stopping], progress=False)
    assert history.epoch == 2 and "has not improved" in trainer.stopped


def test_training_continues_from_a_checkpoint_bit_for_bit(tmp_path):
    trainer, other = regression(), regression()
    for _ in range(3):
        trainer.train_step(X, Y)
    trainer.save(tmp_path / "c.safetensors")
    names = mg.checkpoint.load(tmp_path / "c.safetensors")[0].keys()
    assert {"0.weight", "0.weight/momentum_buffer", "2.running_mean"} <= names
    other.load(tmp_path / "c.safetensors")
    assert other.step == 3
    assert [float(trainer.train_step(X, Y)) for _ in range(3)] == [float(other.train_step(X, Y)) for _ in range(3)]


def test_checkpoint_of_another_module_raises_and_changes_nothing(tmp_path):
    trainer = regression()
    trainer.train_step(X, Y)
    trainer.save(tmp_path / "c.safetensors")
    module = nn.Linear(3, 1)
    other = mg.torch.Trainer(module, F.mse_loss, torch.optim.SGD(module.parameters(), lr=0.1))
    before = other.weights()
    with pytest.raises(mg.CheckpointError, match="another module or optimizer"):
        other.load(tmp_path / "c.safetensors")
    assert all((before[name] == value).all() for name, value in other.weights().items()) and other.step == 0


def test_weights_can_be_read_and_set_by_name():
    trainer = regression()
    weights = trainer.weights()
    trainer.set_weights({name: np.zeros_like(value) for name, value in weights.items()})
    assert not trainer.state_dict()["0.weight"].any()
    with pytest.raises(mg.GraphError, match="values must have the paths"):
        trainer.set_weights({})


def test_trainers_have_the_same_verbs():
    names = {name for name in dir(mg.torch.Trainer) if not name.startswith("_")}
    assert names - {"sync", "state_dict"} <= set(dir(mg.Trainer))
