"""Test that misunderstood arguments of layers and trainers raise errors that say what to write instead."""

import inspect
import pydoc

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

X, Y = np.ones((8, 3), np.float32), np.zeros(8, np.int32)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: nn.LSTM(10, 20), r"inferred from the first call, so write LSTM\(20\)"),
        (lambda: nn.GRU(10, 20, 2), r"write GRU\(20\)"),
        (lambda: nn.RNN(10, 20), r"write RNN\(20\)"),
        (lambda: nn.Linear(10, 20), r"inferred from the first call, so write Linear\(20\)"),
        (lambda: nn.Conv2d(3, 16), r"inferred.*Conv2d\(16, kernel_size=\.\.\.\).*Conv2d\(3, kernel_size=16\)"),
        (lambda: nn.Conv2d(3, 16, 3), r"write Conv2d\(16, 3\)"),
        (lambda: nn.Conv2d(3, 16, kernel_size=3), r"kernel_size twice.*write Conv2d\(16\)"),
        (lambda: nn.Conv1d(1, 8), r"Conv1d\(8, kernel_size"),
        (lambda: nn.Conv3d(3, 16, 3, 2), r"write Conv3d\(16, 3\)"),
        (lambda: nn.ConvTranspose2d(64, 128), r"ConvTranspose2d\(128, kernel_size"),
        (lambda: nn.SeparableConv2d(3, 64), r"SeparableConv2d\(64, kernel_size"),
        (lambda: nn.BatchNorm(64), r"write BatchNorm\(\)"),
        (lambda: nn.Conv2d(8, 7, 2), r"write Conv2d\(7, 2\), or pass it by name \(strides"),
        (lambda: nn.GroupNorm(4, 16), r"write GroupNorm\(4\)"),
        (lambda: nn.MaxPool2d(2, 2, 1), r"also got 1: pass it by name \(padding"),
        (lambda: nn.Embedding(10, 3, 0), r"also got 0: pass it by name \(padding_index"),
        (lambda: nn.LSTM(input_size=10, hidden_size=20), "input_size.*inferred"),
        (lambda: nn.Linear(in_feature=10, out_features=20), "did you mean 'in_features'"),
        (lambda: nn.ReLU(3), "takes no arguments"),
        (lambda: mg.Trainer(nn.Linear(2)).fit(X, Y, 32), "epochs, iterations, or batch_size"),
        (lambda: mg.Trainer(nn.Linear(2)).fit((X, Y), 32), "epochs=32, iterations=32, or batch_size=32"),
        (lambda: mg.Trainer(nn.Linear(2)).fit(X, Y, epoch=3), "did you mean 'epochs'"),
    ],
)
def test_misunderstood_arguments_raise_with_remedy(call, advice):
    with pytest.raises(mg.GraphError, match=advice) as raised:
        call()
    assert isinstance(raised.value, (TypeError, ValueError))


def test_size_passed_to_layer_norm_raises_with_remedy():
    with pytest.raises(mg.ShapeError, match=r"sizes are inferred, so write LayerNorm\(\)"):
        nn.LayerNorm(16)(X)


def _passes(*layers):
    assert all(isinstance(layer, nn.Module) for layer in layers)


def test_usual_sizes_by_position_are_accepted():
    _passes(
        nn.Conv2d(16, 3),
        nn.Conv2d(1, 5),
        nn.Conv2d(3, 9),
        nn.Conv2d(768, 16),
        nn.Conv1d(32, 40),
        nn.Conv2d(3, (16, 16)),
    )
    assert list(nn.Conv2d(3, kernel_size=16).kernel_size) == [16, 16]
    assert nn.LSTM(10, num_layers=20).num_layers == 20


def test_foreign_variable_assigned_to_built_module_is_refused():
    layer = nn.Linear(2)
    layer(mg.Graph().placeholder((-1, 3)))
    with pytest.raises(mg.GraphError, match="variable of the graph in which the module was built"):
        layer.weight = mg.Graph().variable(np.ones((3, 2), np.float32))


def test_variable_assigned_after_building_is_registered():
    layer = nn.Linear(2)
    g = mg.Graph()
    layer(g.placeholder((-1, 3)))
    layer.gain = g.variable(np.float32([2]))
    assert [path for path, _ in layer.named_parameters()] == ["weight", "bias", "gain"]


def _public():
    for room in (
        mg,
        nn,
        nn.losses,
        nn.metrics,
        mg.optim,
        mg.data,
        mg.training,
        mg.training.callbacks,
        mg.onnx,
        mg.custom,
    ):
        for name in room.__all__:
            value = getattr(room, name)
            if inspect.isfunction(value) or (isinstance(value, type) and not issubclass(value, Exception)):
                yield pytest.param(value, id=f"{room.__name__}.{name}")


@pytest.mark.parametrize("value", list(_public()))
def test_help_shows_real_parameters(value):
    shown = pydoc.render_doc(value, renderer=pydoc.plaintext)
    try:
        shown += str(inspect.signature(value))
    except ValueError:  # A class of the compiled core that programs do not create.
        assert value.__module__ == "mpsgraph._core"
    for noise in ("*arguments: Any", "Annotated[", "Bounds", "Named(", ": 'Size", "NotNegative", "BelowOne"):
        assert noise not in shown


def test_signature_of_trainer_and_layers():
    assert list(inspect.signature(nn.LSTM).parameters)[:3] == ["hidden_size", "num_layers", "bias"]
    assert inspect.signature(nn.LSTM).parameters["num_layers"].kind is inspect.Parameter.KEYWORD_ONLY
    fit = inspect.signature(mg.Trainer.fit).parameters
    assert all(fit[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("epochs", "iterations"))
    assert inspect.signature(mg.Trainer).parameters["model"].annotation == "Module | Model"
    assert str(inspect.signature(mg.Device)) == "(name: 'str')"
