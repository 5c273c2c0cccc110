"""Compare random sequences of a trainer's operations with a simple reference in float64 numpy.

The model is linear, and its loss the mean squared error, so that the reference fits into a few lines: the weights, the
optimizer's state, moving averages, and accumulated gradients. Hypothesis chooses the sequences.
"""

import copy
import tempfile
import warnings
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mpsgraph import nn, optim

NUMBERS = np.random.default_rng(0)
BATCHES = [(NUMBERS.normal(size=(n, 3)).astype(np.float32), NUMBERS.normal(size=(n, 1)).astype(np.float32)) for n in
           (4, 4, 6)]  # fmt: skip
VALIDATION = NUMBERS.normal(size=(5, 3)).astype(np.float32)
STEPS = st.lists(st.sampled_from(range(len(BATCHES))), min_size=1, max_size=5)
RATES, DECAYS = [0.0, 0.01, 0.05, 0.125], [0.0, 0.1, 0.5]
PATHS = ["weight", "bias"]


class Reference:
    """What a trainer should do, in float64."""

    def __init__(self, kind, rate, accumulation, ema_decay):
        self.kind, self.rate, self.accumulation, self.ema_decay = kind, rate, accumulation, ema_decay
        self.weight_decay = self.momentum = 0.0
        self.weights = {"weight": np.full((3, 1), 0.5), "bias": np.full(1, -0.25)}
        self.first, self.second = self._zeros(), self._zeros()
        self.sums, self.averages = self._zeros(), {}
        self.count = self.step = self.samples = 0
        self.frozen = set()

    def _zeros(self):
        return {path: np.zeros_like(value) for path, value in self.weights.items()}

    def gradients(self, x, y):
        slope = 2 * (x @ self.weights["weight"] + self.weights["bias"] - y) / len(x)
        return {"weight": x.T @ slope, "bias": slope.sum(0)}

    def train(self, x, y):
        loss = np.mean((x @ self.weights["weight"] + self.weights["bias"] - y) ** 2)
        trained = [path for path in PATHS if path not in self.frozen]
        for path, slope in self.gradients(x.astype(np.float64), y.astype(np.float64)).items():
            if path in trained:
                self.sums[path] = self.sums[path] + slope * len(x)
        self.step += 1
        self.samples += len(x)
        if self.step % self.accumulation == 0:
            self.update(trained)
            self.sums, self.samples = self._zeros(), 0
        return loss

    def update(self, trained):
        self.count += 1
        for path in trained:
            w = self.weights[path]
            slope = self.sums[path] / self.samples + self.weight_decay * w
            if self.kind == "sgd":
                if self.momentum:
                    self.first[path] = slope = self.momentum * self.first[path] + slope
                self.weights[path] = w - self.rate * slope
            else:
                self.first[path] = 0.9 * self.first[path] + 0.1 * slope
                self.second[path] = 0.99 * self.second[path] + 0.01 * slope**2
                mean, square = self.first[path] / (1 - 0.9**self.count), self.second[path] / (1 - 0.99**self.count)
                self.weights[path] = w - self.rate * mean / (np.sqrt(square) + 1e-3)
        if self.ema_decay is not None:
            for path in PATHS:
                if path in self.averages:
                    self.averages[path] += (1 - self.ema_decay) * (self.weights[path] - self.averages[path])
                elif path in trained:
                    self.averages[path] = self.weights[path].copy()


class Sessions(RuleBasedStateMachine):
    """A trainer and its reference."""

    @initialize(
        kind=st.sampled_from(["sgd", "adam"]),
        rate=st.sampled_from(RATES[1:]),
        accumulation=st.sampled_from([1, 1, 2, 3]),
        ema_decay=st.sampled_from([None, 0.5, 0.75]),
    )
    def start(self, kind, rate, accumulation, ema_decay):
        self.options = kind, rate, accumulation, ema_decay
        self.folder = tempfile.TemporaryDirectory()
        self.saved = None
        self.trainer, self.reference = self.created(), Reference(*self.options)

    def created(self):
        kind, rate, accumulation, ema_decay = self.options
        optimizer = optim.SGD(rate)
        if kind == "adam":
            optimizer = optim.Adam(rate, beta1=0.9, beta2=0.99, epsilon=1e-3, corrected_epsilon=True)
        options = {"gradient_accumulation_steps": accumulation, "ema_decay": ema_decay, "seed": 0}
        return mg.Trainer(Parts(), "mse", optimizer, **options)

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def make_steps(self, batches):
        for batch in batches:
            x, y = BATCHES[batch]
            expected = self.reference.train(x, y)
            assert float(self.trainer.train_step(x, y)) == pytest.approx(expected, rel=1e-3, abs=1e-4)

    # --- rules --------------------------------------------------------------------------------------------------------

    @rule(batches=STEPS)
    def train(self, batches):
        self.make_steps(batches)

    @rule(batches=STEPS)
    def fit(self, batches):
        for batch in batches:
            self.reference.train(*BATCHES[batch])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Some gradients may remain accumulated at the end.
            self.trainer.fit([BATCHES[batch] for batch in batches], progress=False)

    @rule(kind=st.sampled_from(["dtype", "rank", "features"]))
    def refuse_a_batch(self, kind):
        """A batch of the wrong dtype or shape raises and changes nothing."""
        x, y = BATCHES[0]
        if not self.trainer.builder.specs:
            return
        wrong = {"dtype": x.astype(np.float16), "rank": x[..., None], "features": x[:, :2]}[kind]
        with pytest.raises(mg.Error):
            self.trainer.train_step(wrong, y).wait()

    @rule(batch=st.sampled_from(range(len(BATCHES))), waits=st.booleans(), then=STEPS)
    def fail_a_step(self, batch, waits, then):
        """A step that fails while it runs raises, and leaves every variable and counter unchanged."""
        x, y = BATCHES[batch]
        failing = x.copy()
        failing[0, 0] = 1e6
        result = self.trainer.train_step(failing, y)
        with pytest.raises(mg.OutOfRangeError):
            float(result) if waits else self.trainer.wait()
        self.make_steps(then)

    @rule(rate=st.sampled_from(RATES), to_optimizer=st.booleans(), then=STEPS)
    def set_rate(self, rate, to_optimizer, then):
        if to_optimizer:
            self.trainer.optimizer.learning_rate = rate
        else:
            self.trainer.learning_rate = rate
        self.reference.rate = rate
        self.make_steps(then)

    @rule(decay=st.sampled_from(DECAYS), then=STEPS)
    def set_weight_decay(self, decay, then):
        self.trainer.optimizer.weight_decay = self.reference.weight_decay = decay
        self.make_steps(then)

    @precondition(lambda self: self.options[0] == "sgd")
    @rule(momentum=st.sampled_from([0.0, 0.5, 0.9]), then=STEPS)
    def set_momentum(self, momentum, then):
        self.trainer.optimizer.momentum = self.reference.momentum = momentum
        self.make_steps(then)

    @rule(part=st.sampled_from(PATHS), freeze=st.booleans(), then=STEPS)
    def freeze_or_unfreeze(self, part, freeze, then):
        others = {path for path in self.reference.frozen if path != part}
        if freeze and others:
            return  # Nothing would be left to train.
        module = getattr(self.trainer.model, f"{part}_holder")
        (module.freeze if freeze else module.unfreeze)()
        self.reference.frozen = others | ({part} if freeze else set())
        self.make_steps(then)

    @rule()
    def save(self):
        if not self.trainer.builder.specs:
            with pytest.raises(mg.GraphError, match="nothing to save"):
                self.trainer.save(Path(self.folder.name) / "c.safetensors")
            return
        self.trainer.save(Path(self.folder.name) / "c.safetensors")
        self.saved = copy.deepcopy(self.reference)

    @precondition(lambda self: self.saved is not None)
    @rule(new=st.booleans(), then=STEPS)
    def load(self, new, then):
        if new:
            self.trainer = self.created()
            for path in self.saved.frozen:
                getattr(self.trainer.model, f"{path}_holder").freeze()
        frozen = self.saved.frozen if new else self.reference.frozen
        self.trainer.load(Path(self.folder.name) / "c.safetensors")
        self.reference = copy.deepcopy(self.saved)
        self.reference.frozen = set(frozen)
        self.make_steps(then)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def load_a_damaged_file(self):
        path = Path(self.folder.name) / "damaged.safetensors"
        path.write_bytes((Path(self.folder.name) / "c.safetensors").read_bytes()[:-3])
        with pytest.raises(mg.CheckpointError):
            self.trainer.load(path)

    @rule()
    def evaluate(self):
        x, y = BATCHES[0]
        weights = self.reference.weights
        expected = np.mean((x @ weights["weight"] + weights["bias"] - y) ** 2)
        assert self.trainer.evaluate(x, y)["loss"] == pytest.approx(expected, rel=1e-3, abs=1e-4)

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def weights_and_counters_agree(self):
        if not hasattr(self, "trainer") or not self.trainer.builder.specs:
            return
        self.trainer.wait()
        assert self.trainer.step == self.reference.step
        assert self.trainer.learning_rate == pytest.approx(self.reference.rate)
        for path, value in named(self.trainer.weights()).items():
            np.testing.assert_allclose(value, self.reference.weights[path], rtol=1e-3, atol=1e-4)

    @invariant()
    def averages_agree(self):
        if not hasattr(self, "trainer") or not self.reference.averages:
            return
        with self.trainer.averaged_weights():
            found = named(self.trainer.weights())
            with pytest.raises(mg.GraphError):
                self.trainer.train_step(*BATCHES[0])
        for path, expected in self.reference.averages.items():
            np.testing.assert_allclose(found[path], expected, rtol=1e-3, atol=1e-4)


class Parts(nn.Module):
    """A linear layer whose weight and bias can be frozen separately."""

    def __init__(self):
        self.weight_holder, self.bias_holder = Weight(), Bias()

    def forward(self, x):
        g = x.graph
        # A table with one row, whose index is 1, and therefore out of range, if an input is very large.
        too_large = g.cast(x.graph.reduction_maximum(g.reduction_maximum(x, 1), 0) > 1e5, "int32")
        nothing = g.gather(g.constant([0.0]), g.reshape(too_large, (1,)), out_of_range="error")
        return self.bias_holder(self.weight_holder(x)) + nothing


class Weight(nn.Module):
    def build(self, x):
        self.weight = self.add_parameter("weight", x, (3, 1), nn.initialisers.Constant(0.5))

    def forward(self, x):
        return x @ self.weight


class Bias(nn.Module):
    def build(self, x):
        self.bias = self.add_parameter("bias", x, (1,), nn.initialisers.Constant(-0.25))

    def forward(self, x):
        return x + self.bias


def named(weights):
    """Return weights keyed by the last part of their paths."""
    return {path.split(".")[-1]: value for path, value in weights.items()}


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=60, stateful_step_count=20, derandomize=True, deadline=None)
