"""Test that setting an attribute of a trainer, an optimizer, or a layer takes effect at the next step, or raises.

The attributes are found by introspection, so an attribute that is added without an expectation fails here.
"""

import inspect
import re

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn, optim
from mpsgraph.training.changed_settings import signature_of

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X @ np.float32([[1], [-2], [3], [-4]]) + 1


# --- layers -----------------------------------------------------------------------------------------------------------

IMAGES, SEQUENCES, ROWS = (2, 8, 8, 4), (2, 6, 8), (2, 8)
LAYERS = {
    "AdaptiveAvgPool2d": ((4,), IMAGES),
    "AvgPool1d": ((2,), SEQUENCES),
    "AvgPool2d": ((2,), IMAGES),
    "AvgPool3d": ((2,), (2, 4, 4, 4, 4)),
    "BatchNorm": ((), IMAGES),
    "ColorJitter": ((0.5, 0.5, 0.5), (2, 8, 8, 3)),
    "Conv1d": ((4, 3), SEQUENCES),
    "Conv2d": ((4, 3), IMAGES),
    "Conv3d": ((4, 2), (2, 4, 4, 4, 4)),
    "ConvTranspose1d": ((4, 3), SEQUENCES),
    "ConvTranspose2d": ((4, 3), IMAGES),
    "ConvTranspose3d": ((4, 2), (2, 4, 4, 4, 4)),
    "Cutout": ((2,), IMAGES),
    "DepthwiseConv2d": ((3,), IMAGES),
    "Embedding": ((9, 4), None),
    "Fold": (((8, 8), 2), (2, 49, 16)),
    "GRU": ({"hidden_size": 4, "num_layers": 2}, SEQUENCES),
    "GlobalAveragePooling2d": ((), IMAGES),
    "GroupNorm": ((2,), IMAGES),
    "InstanceNorm": ((), IMAGES),
    "LSTM": ({"hidden_size": 4, "num_layers": 2}, SEQUENCES),
    "LayerNorm": ((), ROWS),
    "Linear": ((4,), ROWS),
    "MaxPool1d": ((2,), SEQUENCES),
    "MaxPool2d": ((2,), IMAGES),
    "MaxPool3d": ((2,), (2, 4, 4, 4, 4)),
    "MultiheadAttention": ((8, 2), SEQUENCES),
    "PReLU": ((), ROWS),
    "PixelShuffle": ((2,), IMAGES),
    "PixelUnshuffle": ((2,), IMAGES),
    "PositionalEncoding": ((), (2, -1, 8)),
    "QuantizedEmbedding": ((9, 64), None),
    "QuantizedLinear": ((4,), (2, 64)),
    "RMSNorm": ((), ROWS),
    "RNN": ({"hidden_size": 4, "num_layers": 2}, SEQUENCES),
    "RandomCrop": ((6,), IMAGES),
    "RandomFlip": ((), IMAGES),
    "RandomRotation": ((20,), IMAGES),
    "ReflectionPad2d": ((1,), IMAGES),
    "ReplicationPad2d": ((1,), IMAGES),
    "SeparableConv2d": ((4, 3), IMAGES),
    "SpatialDropout": ((), IMAGES),
    "Threshold": ((0.5, 2.0), ROWS),
    "TransformerDecoderLayer": ((8, 2, 16), SEQUENCES),
    "TransformerEncoderLayer": ((8, 2, 16), SEQUENCES),
    "Unflatten": (((2, 4),), ROWS),
    "Unfold": ((2,), IMAGES),
    "Upsample": ((16,), IMAGES),
    "ZeroPad2d": ((1,), IMAGES),
}
"""Constructor arguments and input shapes of the layers that need others than no arguments and a matrix."""

NOT_CALLED = {
    "Module": "the base class",
    "LoRA": "contains another layer; tests/nn/test_adapters.py tests its settings",
    "Masking": "attaches a mask, which later layers use",
    "Sequential": "its layers are its only attribute",
    "TransformerDecoder": "a sequence of layers",
    "TransformerEncoder": "a sequence of layers",
    "LinearPositions": "called by attention",
    "RelativePositions": "called by attention",
    "RotaryPositions": "called by attention",
}

STRINGS = {
    "activation": {"tanh": "relu"},
    "approximate": {"none": "tanh"},
    "data_layout": {"NWC": "NCW", "NHWC": "NCHW", "NDHWC": "NCDHW"},
    "mode": {"nearest": "bilinear", "bilinear": "nearest"},
    "out_of_range": {"error": "zero"},
    "padding": {"TF_VALID": "TF_SAME"},
}
"""Alternatives of strings, by the name of the attribute."""

NO_EFFECT: dict[tuple[str, str], str] = {
    ("BatchNorm", "batches_tracked"): "a number for PyTorch, which no operation uses",
    ("Upsample", "align_corners"): "applies only to the mode bilinear",
}


def alternative(name, value):
    """Return another value for an attribute."""
    if name == "positions":
        return nn.RotaryPositions()
    if isinstance(value, (nn.Module, mg.Tensor)):
        return 0.25
    if isinstance(value, mg.DType):
        return mg.float16
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 + 0.0625
    if isinstance(value, str):
        return STRINGS[name][value]
    if isinstance(value, (tuple, list)):
        return type(value)(alternative(name, item) for item in value) or type(value)([2, 2])
    if callable(value):
        return abs if name == "activation" else nn.initialisers.Constant(0.5)
    assert value is None, f"{name}: no rule yields a value other than {value!r}"
    return 1


def made(kind, arguments, shape, **options):
    """Create a layer in a new graph and call it. Return the layer and its input."""
    layer = kind(**arguments, **options) if isinstance(arguments, dict) else kind(*arguments, **options)
    g = mg.Graph()
    x = g.placeholder((2, 6), "int32") if shape is None else g.placeholder(shape)
    layer(*inputs_of(kind, x))
    return layer, x


def inputs_of(kind, x):
    return (x, x) if kind is nn.TransformerDecoderLayer else (x,)


def operations_of(layer, x):
    """Return a description of the operations that another call adds. It does not distinguish between random states."""
    start = x.graph.operation_count
    layer(*inputs_of(type(layer), x))
    described = signature_of([op for op in x.graph.operations if op.id >= start and op.kind != "variable"])
    return re.sub(r"random_state_\d+", "random_state", repr(described))


def kinds():
    found = {each for each in vars(nn).values() if isinstance(each, type) and issubclass(each, nn.Module)}
    return sorted(found, key=lambda kind: kind.__name__)


def attributes():
    for kind in kinds():
        if kind.__name__ not in NOT_CALLED:
            arguments, shape = LAYERS.get(kind.__name__, ((), ROWS))
            layer, _ = made(kind, arguments, shape)
            names = {n for n, v in vars(layer).items() if n[0] != "_" and not isinstance(v, (nn.Module, mg.Tensor))}
            names |= set(inspect.signature(kind).parameters)
            yield from (pytest.param(kind, name, id=f"{kind.__name__}-{name}") for name in sorted(names))


@pytest.mark.parametrize(("kind", "name"), list(attributes()))
def test_changed_layer_attribute_takes_effect_or_raises(kind, name):
    arguments, shape = LAYERS.get(kind.__name__, ((), ROWS))
    layer, x = made(kind, arguments, shape)
    before = operations_of(layer, x)
    value = alternative(name, vars(layer).get(name))
    try:
        setattr(layer, name, value)
        after = operations_of(layer, x)
    except mg.Error:
        return
    if (kind.__name__, name) in NO_EFFECT:
        assert after == before, "remove this attribute from NO_EFFECT"
        return
    assert after != before, f"{kind.__name__}.{name} = {value!r} neither took effect nor raised"
    signature = inspect.signature(kind)
    if name in signature.parameters:
        named = arguments if isinstance(arguments, dict) else signature.bind(*arguments).arguments
        constructed, x = made(kind, (), shape, **(named | {name: value}))
        assert after == operations_of(constructed, x), (
            "setting the attribute differs from passing it to the constructor"
        )


def test_assigned_attribute_acts_like_constructor_argument_before_and_after_building():
    pool, layer = nn.MaxPool2d(2), nn.BatchNorm(eps=1e-4)
    pool.kernel_size = 3
    layer.epsilon = 1e-2
    assert (list(pool.kernel_size), list(pool.strides)) == ([3, 3], [3, 3]) and layer.epsilon == 1e-2
    pool.strides = 1
    pool.kernel_size = 2
    assert (list(pool.kernel_size), list(pool.strides)) == ([2, 2], [1, 1])
    with pytest.raises(mg.GraphError):
        pool.data_layout = "other"
    with pytest.raises(mg.GraphError, match="dropout cannot be set, because it is only an argument"):
        nn.MultiheadAttention(8, 2).dropout = 0.5
    with pytest.raises(mg.GraphError, match=r"Linear\.bias must be a variable"):
        nn.Linear(3).bias = False
    with pytest.raises(mg.GraphError, match=r"dropout must be a module"):
        nn.PositionalEncoding().dropout = 0.5


# --- optimizers -------------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "ClipByNorm": lambda **o: optim.ClipByNorm(optim.SGD(0.1), **({"maximum": 1e-3} | o)),
    "ClipByValue": lambda **o: optim.ClipByValue(optim.SGD(0.1), **({"maximum": 1e-3} | o)),
    "LossScaling": lambda **o: optim.LossScaling(optim.SGD(0.1), **o),
    "Muon": lambda **o: optim.Muon(0.1, others=optim.AdamW(0.1), **o),
    "ParameterGroups": lambda **o: optim.ParameterGroups(optim.SGD(0.1), {"0": {"learning_rate": 0.2}}, **o),
    "SGD": lambda **o: optim.SGD(**({"learning_rate": 0.1, "momentum": 0.5} | o)),
    "RMSProp": lambda **o: optim.RMSProp(**({"learning_rate": 0.1, "momentum": 0.5} | o)),
}
NOT_ALONE = {"Optimizer": "the base class"}
REBUILT = {
    ("ClipByNorm", "error_if_nonfinite"): "applies to infinite gradients",
    ("LossScaling", "growth"): "applies after many steps",
    ("LossScaling", "interval"): "applies after many steps",
    ("LossScaling", "backoff"): "applies to gradients that overflow",
    ("Adam", "amsgrad"): "applies when squared gradients become smaller",
    ("AdamW", "amsgrad"): "applies when squared gradients become smaller",
    ("Lion", "beta1"): "changes a step only if it changes the sign of an average",
    ("Lion", "beta2"): "changes a step only if it changes the sign of an average",
    ("Muon", "epsilon"): "applies to vanishing gradients",
    ("RAdam", "beta2"): "applies after several steps",
    ("RAdam", "epsilon"): "applies after several steps",
    ("SGD", "decoupled"): "applies with weight decay",
}
"""Options that change the operations of a step, but not the weights of the tested one."""


def optimizer_kinds():
    found = {each for each in vars(optim).values() if isinstance(each, type) and issubclass(each, optim.Optimizer)}
    return sorted((kind for kind in found if kind.__name__ not in NOT_ALONE), key=lambda kind: kind.__name__)


def options():
    for kind in optimizer_kinds():
        made = OPTIMIZERS.get(kind.__name__, kind)()
        names = {name for name in vars(made) if name[0] != "_"} | set(inspect.signature(kind).parameters)
        yield from (pytest.param(kind.__name__, name, id=f"{kind.__name__}-{name}") for name in sorted(names))


def other_option(name, value):
    if name == "learning_rate":
        return 0.017
    if name == "groups":
        return {"0": None}
    if isinstance(value, optim.Optimizer):
        return optim.SGD(0.25)
    if name in ("backoff", "growth", "initial"):
        return value * 2 if name != "backoff" else value / 2
    if name == "adjustment":
        return "match_rms_adamw"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 + (0.01 if value < 1e-4 else 0)
    if isinstance(value, tuple):
        return tuple(number * 0.75 for number in value)
    assert value is None, f"{name}: no rule yields a value other than {value!r}"
    return 0.5


def trainer_with(name):
    model = nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Linear(1))
    optimizer = OPTIMIZERS.get(name, getattr(optim, name))()
    precision = "float16" if name == "LossScaling" else "float32"
    trainer = mg.Trainer(model, "mse", optimizer, precision=precision, seed=0)
    for _ in range(2):
        float(trainer.train_step(X, Y))
    return trainer


@pytest.mark.parametrize(("kind", "name"), list(options()))
def test_changed_optimizer_option_takes_effect_or_raises(kind, name):
    trainer, other = trainer_with(kind), trainer_with(kind)
    value = other_option(name, getattr(trainer.optimizer, name))
    rebuilds = trainer.builder.changed.rebuilds
    try:
        setattr(trainer.optimizer, name, value)
        float(trainer.train_step(X, Y))
    except mg.Error:
        float(trainer_with(kind).train_step(X, Y))
        return
    float(other.train_step(X, Y))
    weights = other.weights()
    differs = any((now != weights[path]).any() for path, now in trainer.weights().items())
    if (kind, name) in REBUILT:
        assert trainer.builder.changed.rebuilds > rebuilds and not differs, "remove this option from REBUILT"
        return
    assert differs, f"{kind}.{name} = {value!r} neither took effect nor raised"


# --- the trainer ------------------------------------------------------------------------------------------------------


def _loss_of(trainer):
    return float(trainer.train_step(X, Y))


ATTRIBUTES = {
    **dict.fromkeys(
        (
            *("model", "network", "graph", "objective", "seed", "dtype", "engine", "distributed", "precision"),
            *(
                "precision_error",
                "precision_choices",
                "accumulation",
                "gradient_accumulation_steps",
                "state",
                "builder",
            ),
        ),
        "raises",
    ),
    "optimizer": optim.SGD(0.5),
    "loss": "l1",
    "loss_weights": {"": 2.0},
    "metrics": ["mean_absolute_error"],
    "device": "nowhere",  # Raises; test_settings.py has no second device either.
    "check_finite": True,
    "ema_decay": 0.5,
    "checkpoint_layers": "elsewhere",  # tests/training/test_checkpointed_layers.py
    "low_precision_weights": "elsewhere",  # tests/training/test_low_precision_weights.py
    "learning_rate": 0.5,
    "step": 7,
    "history": mg.History(),
    "stopped": None,
}
"""Values of a trainer's attributes after the first batch, "raises" for those that cannot change, and "elsewhere" for
those whose effect another file tests."""

EFFECTS = {
    "optimizer": lambda trainer, before: (
        (trainer.train_step(X, Y).wait(), trainer.weights()["weight"])[1][0, 0] != before.weights()["weight"][0, 0]
    ),
    "loss": lambda trainer, before: _loss_of(trainer) != _loss_of(before),
    "loss_weights": lambda trainer, before: _loss_of(trainer) == pytest.approx(2 * _loss_of(before)),
    "metrics": lambda trainer, before: "mean_absolute_error" in trainer.train_step(X, Y).values,
    "ema_decay": lambda trainer, before: trainer.train_step(X, Y).wait() and trainer.state.has_averages,
    "learning_rate": lambda trainer, before: trainer.learning_rate == 0.5,
    "step": lambda trainer, before: trainer.train_step(X, Y).wait() and trainer.step == 8,
    "history": lambda trainer, before: trainer.fit([(X, Y)], progress=False) is trainer.history,
    "stopped": lambda trainer, before: trainer.stopped is None,
}


def linear():
    trainer = mg.Trainer(nn.Linear(1), "mse", optim.SGD(0.1))
    trainer.evaluate(X, Y)
    trainer.set_weights({"weight": np.ones((4, 1), np.float32), "bias": np.zeros(1, np.float32)})
    trainer.train_step(X, Y).wait()
    return trainer


def public_attributes():
    properties = {name for name, value in inspect.getmembers(mg.Trainer) if isinstance(value, property)}
    return sorted(name for name in {*vars(linear()), *properties} if not name.startswith("_"))


@pytest.mark.parametrize("name", public_attributes())
def test_changed_trainer_attribute_takes_effect_or_raises(name):
    assert name in ATTRIBUTES, f"add an expectation for Trainer.{name}"
    trainer, before = linear(), linear()
    if ATTRIBUTES[name] == "elsewhere":
        with pytest.raises(mg.GraphError, match=name):
            setattr(trainer, name, 3)
        return
    if ATTRIBUTES[name] == "raises":
        with pytest.raises(mg.GraphError, match="cannot be changed"):
            setattr(trainer, name, 3)
        assert _loss_of(trainer) == _loss_of(before)
        return
    if name == "device":
        with pytest.raises(mg.DeviceError):
            trainer.device = ATTRIBUTES[name]
        return
    setattr(trainer, name, ATTRIBUTES[name])
    if name == "check_finite":
        with pytest.raises(mg.CheckError):
            trainer.train_step(X * np.float32(np.inf), Y)
        return
    assert EFFECTS[name](trainer, before)


METHODS = {
    "averaged_weights": "test_trainer_state.py",
    "evaluate": "test_settings.py",
    "fit": "test_trainer_state.py",
    "forward": "adds operations to the graph",
    "load": "test_trainer_state.py",
    "memory_estimate": "test_memory_estimate.py",
    "minimize": "raises outside of training_step",
    "optimize_for_inference": "this file",
    "predict": "test_settings.py",
    "quantize": "uses the same model as optimize_for_inference",
    "results": "adds operations to the graph",
    "save": "test_trainer_state.py",
    "set_weights": "this file",
    "stop": "test_callbacks.py",
    "train_step": "test_settings.py",
    "training_step": "raises outside of a step, because it calls minimize",
    "wait": "waits",
    "weights": "this file",
}
"""Methods of a trainer, and where their use after a changed setting is tested."""


def test_every_trainer_method_is_tested_after_a_changed_setting():
    methods = {name for name, value in inspect.getmembers(mg.Trainer, inspect.isfunction) if not name.startswith("_")}
    assert methods == METHODS.keys(), "add the method to METHODS, with a test that uses it after a changed setting"


def test_methods_that_build_a_step_raise_outside_training_step():
    trainer = linear()
    with pytest.raises(mg.GraphError, match="only be called in training_step"):
        trainer.minimize(trainer.graph.constant(1.0))
    built = trainer.builder.last_built
    with pytest.raises(mg.GraphError, match="only be called in training_step"):
        trainer.training_step(built.inputs, built.labels)


def test_methods_follow_a_replaced_layer():
    """Exports, weights, and predictions use a layer that was replaced since the last step."""
    model = nn.Sequential(nn.Linear(1))
    trainer = mg.Trainer(model, "mse")
    trainer.train_step(X, Y).wait()
    model.layers.append(nn.Linear(1, weight_initialiser=nn.initialisers.Constant(3.0)))
    assert list(trainer.weights()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    weights = trainer.weights()
    expected = 3 * (X @ weights["0.weight"] + weights["0.bias"])
    for outputs in (trainer.predict(X), trainer.optimize_for_inference()(X).numpy()):
        np.testing.assert_allclose(outputs, expected, rtol=1e-5)
    trainer.set_weights({path: value * 2 for path, value in weights.items()})
    np.testing.assert_allclose(trainer.predict(X), 4 * expected, rtol=1e-5)
