"""Write Tests/MpsgraphTests/Vectors: what layers, losses, optimizers, and schedules compute in Python.

    python swift/Tests/make_vectors.py

layers.json has, for each case, an input, the weights by path, the outputs in inference and in training, the gradients
of the mean of the squared training output, and the statistics after that run. losses.json has
the value and the gradient of each loss, optimizers.json the values of a parameter after each of five steps, and
schedules.json the rates of the first steps. LayerVectorTests.swift and the tests next to it compare Swift's results.
"""

import json
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph import nn, optim

VECTORS = Path(__file__).resolve().parent / "MpsgraphTests" / "Vectors"
SEED = 1

IMAGES, SEQUENCES, ROWS = (2, 6, 5, 4), (2, 5, 3), (4, 6)
LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(3), ROWS),
    "linear_without_bias": (lambda: nn.Linear(3, bias=False), ROWS),
    "conv1d": (lambda: nn.Conv1d(4, 3, strides=2, padding="TF_SAME"), SEQUENCES),
    "conv2d": (lambda: nn.Conv2d(6, 3, strides=(2, 1), padding="TF_SAME", groups=2), IMAGES),
    "conv2d_explicit": (lambda: nn.Conv2d(3, (2, 3), padding=((1, 0), (2, 1)), dilations=2), IMAGES),
    "conv2d_nchw": (lambda: nn.Conv2d(3, 3, data_layout="NCHW"), IMAGES),
    "conv3d": (lambda: nn.Conv3d(2, 2), (1, 3, 4, 3, 2)),
    "depthwise_conv2d": (lambda: nn.DepthwiseConv2d(3, channel_multiplier=2), IMAGES),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(3, 3, strides=2, padding="TF_SAME"), IMAGES),
    "conv_transpose2d_valid": (lambda: nn.ConvTranspose2d(3, (2, 3), strides=2), IMAGES),
    "max_pool2d": (lambda: nn.MaxPool2d(2), IMAGES),
    "avg_pool2d": (lambda: nn.AvgPool2d(3, 2, padding="TF_SAME"), IMAGES),
    "global_average_pooling2d": (lambda: nn.GlobalAveragePooling2d(), IMAGES),
    "batch_norm": (lambda: nn.BatchNorm(), IMAGES),
    "batch_norm_nchw": (lambda: nn.BatchNorm(momentum=0.5, data_layout="NCHW"), IMAGES),
    "layer_norm": (lambda: nn.LayerNorm(), SEQUENCES),
    "layer_norm_2": (lambda: nn.LayerNorm((-2, -1)), SEQUENCES),
    "rms_norm": (lambda: nn.RMSNorm(), SEQUENCES),
    "group_norm": (lambda: nn.GroupNorm(2), IMAGES),
    "instance_norm": (lambda: nn.InstanceNorm(scale=True, center=True), IMAGES),
    "embedding": (lambda: nn.Embedding(7, 3), (2, 4)),
    "dropout": (lambda: nn.Dropout(0.25), ROWS),
    "rnn": (lambda: nn.RNN(4), SEQUENCES),
    "lstm": (lambda: nn.LSTM(4), SEQUENCES),
    "lstm_stacked": (lambda: nn.LSTM(3, num_layers=2, bidirectional=True), SEQUENCES),
    "gru": (lambda: nn.GRU(4), SEQUENCES),
    "gru_stacked": (lambda: nn.GRU(3, num_layers=2, bidirectional=True, batch_first=False), SEQUENCES),
    "multi_head_attention": (lambda: nn.MultiheadAttention(6, 2), SEQUENCES),
    "relu": (lambda: nn.ReLU(), ROWS),
    "leaky_relu": (lambda: nn.LeakyReLU(0.2), ROWS),
    "sigmoid": (lambda: nn.Sigmoid(), ROWS),
    "tanh": (lambda: nn.Tanh(), ROWS),
    "gelu": (lambda: nn.GELU(), ROWS),
    "gelu_tanh": (lambda: nn.GELU("tanh"), ROWS),
    "elu": (lambda: nn.ELU(0.5), ROWS),
    "selu": (lambda: nn.SELU(), ROWS),
    "silu": (lambda: nn.SiLU(), ROWS),
    "mish": (lambda: nn.Mish(), ROWS),
    "softplus": (lambda: nn.Softplus(), ROWS),
    "softsign": (lambda: nn.Softsign(), ROWS),
    "softmax": (lambda: nn.Softmax(), ROWS),
    "log_softmax": (lambda: nn.LogSoftmax(), ROWS),
    "sequential": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 3), nn.BatchNorm(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(3)
        ),
        IMAGES,
    ),
}
OPTIMIZERS = {
    "sgd": lambda: optim.SGD(0.1),
    "sgd_momentum": lambda: optim.SGD(0.1, 0.9, weight_decay=0.01),
    "sgd_nesterov": lambda: optim.SGD(0.1, 0.9, True, 0.1, decoupled=True),
    "adam": lambda: optim.Adam(0.1),
    "adam_amsgrad": lambda: optim.Adam(0.1, 0.8, 0.99, 1e-6, True, 0.01, corrected_epsilon=True),
    "adamw": lambda: optim.AdamW(0.1, weight_decay=0.1),
    "rmsprop": lambda: optim.RMSProp(0.1),
    "rmsprop_momentum": lambda: optim.RMSProp(0.1, 0.9, momentum=0.5, weight_decay=0.01),
    "adagrad": lambda: optim.Adagrad(0.1, initial_sum=0.1),
    "adadelta": lambda: optim.AdaDelta(0.5, weight_decay=0.01),
    "lion": lambda: optim.Lion(0.1, weight_decay=0.1),
}
SCHEDULES = {
    "constant": optim.ConstantRate(0.1),
    "step": optim.StepRate(1.0, every=3, factor=0.5),
    "exponential": optim.ExponentialRate(1.0, every=4, factor=0.5),
    "cosine": optim.CosineRate(0.5, steps=8, final=0.1),
    "linear": optim.PolynomialRate(0.5, steps=8, final=0.1),
    "warm_up": optim.WarmUp(optim.CosineRate(0.5, steps=6), 3),
}


def array(values: Any) -> dict[str, Any]:
    values = np.asarray(values)
    # The shortest decimal of a float32 needs half as many digits as that of the same float64.
    return {"shape": list(values.shape), "type": str(values.dtype), "values": [float(str(v)) for v in values.ravel()]}


def layer(make: Any, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
    integers = isinstance(make(), nn.Embedding)
    x = rng.integers(7, size=shape).astype(np.int32) if integers else rng.normal(size=shape).astype(np.float32)
    model, g = make(), mg.Graph(seed=SEED)
    source = g.placeholder(shape, "int32" if integers else "float32")
    inference = model.eval()(source)
    weights = {
        path: np.abs(rng.normal(size=value.shape)).astype(np.float32) / 2 + np.float32(0.1)
        if path.endswith("variance")
        else (rng.normal(size=value.shape) / 2).astype(np.float32)
        for path, value in model.state_dict().items()
    }
    model.load_state_dict(weights)
    training = model.train()(source)
    parameters = dict(model.named_parameters())
    loss = g.mean(g.square(training))
    gradients = g.gradients(loss, list(parameters.values())) if parameters else {}
    expected = g.run({source: x}, inference).numpy()
    targets = [training, *(gradients[p] for p in parameters.values())]
    results = g.run({source: x}, targets)
    return {
        "input": array(x),
        "weights": {path: array(value) for path, value in weights.items()},
        "inference": array(expected),
        "training": array(results[training].numpy()),
        "gradients": {path: array(results[gradients[p]].numpy()) for path, p in parameters.items()},
        "statistics": {path: array(value) for path, value in model.state_dict().items() if "moving" in path},
    }


def losses(rng: np.random.Generator) -> dict[str, Any]:
    logits = rng.normal(size=(5, 4)).astype(np.float32)
    classes = rng.integers(4, size=5).astype(np.int32)
    targets, zeros_and_ones = rng.normal(size=(5, 4)).astype(np.float32), np.float32(rng.random((5, 4)) > 0.5)
    cases = {
        "cross_entropy": (nn.losses.cross_entropy, classes),
        "cross_entropy_smoothed": (lambda o, t: nn.losses.cross_entropy(o, t, label_smoothing=0.1), classes),
        "mean_squared_error": (nn.losses.mean_squared_error, targets),
        "mean_absolute_error": (nn.losses.mean_absolute_error, targets),
        "huber": (nn.losses.huber, targets),
        "binary_cross_entropy_with_logits": (nn.losses.binary_cross_entropy_with_logits, zeros_and_ones),
        "accuracy": (nn.metrics.accuracy, classes),
    }
    found: dict[str, Any] = {}
    for name, (function, labels) in cases.items():
        g = mg.Graph()
        outputs, wanted = g.placeholder((-1, 4)), g.placeholder((-1, *labels.shape[1:]), str(labels.dtype))
        value = function(outputs, wanted)
        feeds = {outputs: logits, wanted: labels}
        found[name] = {"labels": array(labels), "value": g.run(feeds, value).item()}
        if name != "accuracy":
            found[name]["gradient"] = array(g.run(feeds, g.gradients(value, [outputs])[outputs]).numpy())
    return {"outputs": array(logits), "cases": found}


def optimizers(rng: np.random.Generator) -> dict[str, Any]:
    start = rng.normal(size=6).astype(np.float32)
    gradients = [(rng.normal(size=6) * 10.0 ** rng.integers(-3, 2, size=6)).astype(np.float32) for _ in range(5)]
    found = {}
    for name, make in OPTIMIZERS.items():
        g, optimizer = mg.Graph(), make()
        v, d, rate = g.variable(start), g.placeholder((6,)), g.placeholder(())
        steps = optimizer.updates({v: d}, rate)
        values = []
        for step, gradient in enumerate(gradients):
            g.run({d: gradient, rate: np.float32(optimizer.learning_rate(step))}, [], steps)
            values.append(g.variable_value(v).tolist())
        found[name] = values
    return {"start": start.tolist(), "gradients": [d.tolist() for d in gradients], "values": found}


def main() -> None:
    VECTORS.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    files = {
        "layers": {name: layer(make, shape, rng) for name, (make, shape) in LAYERS.items()},
        "losses": losses(rng),
        "optimizers": optimizers(rng),
        "schedules": {name: [schedule(step) for step in range(12)] for name, schedule in SCHEDULES.items()},
    }
    for name, contents in files.items():
        (VECTORS / f"{name}.json").write_text(json.dumps(contents) + "\n")


if __name__ == "__main__":
    main()
