"""Test lazy imports of subpackages, observers of module calls, and unbuilt copies of modules."""

import subprocess
import sys
import threading

import mpsgraph as mg
import pytest
from mpsgraph.nn.module import unbuilt_copy
from mpsgraph.nn.observation import observed_calls
from mpsgraph.nn.parts import own_parameters, settings_of


@pytest.mark.parametrize(
    ("use", "loaded", "left"),
    [
        ("mg.Graph().constant(1.0)", "mpsgraph.precision.mixed_precision", "mpsgraph.training"),
        ("mg.checkpoint.load", "mpsgraph.training.checkpoint", "mpsgraph.training.trainer"),
        ("mg.nn.Linear(2)", "mpsgraph.nn", "mpsgraph.precision.layer_precision"),
    ],
)
def test_subpackages_are_imported_on_first_use(use: str, loaded: str, left: str):
    program = f"import sys, mpsgraph as mg; {use}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True, timeout=120)
    assert loaded in done.stdout.split() and left not in done.stdout.split()


# --- observers of module calls ----------------------------------------------------------------------------------------


def test_observers_record_arguments_results_and_operations():
    class Scaled(mg.nn.Module):
        def forward(self, x, factors, *, by=1.0):
            return [x * factors["a"] * by, x]

    g, seen, layer = mg.Graph(), [], Scaled()
    x, factor = g.placeholder((2,)), g.constant(3.0)
    before = g.operation_count
    with observed_calls(seen.append):
        results = layer(x, {"a": factor}, by=2.0)
    layer(x, {"a": factor})
    (call,) = seen
    assert call.module is layer and call.arguments == ((x, {"a": factor}), {"by": 2.0}) and call.result is results
    assert results[0].operation.id in call.operations and x.operation.id not in call.operations
    assert call.operations.start == before


def test_nested_observers_stop_when_their_block_ends():
    model, outer, inner = mg.nn.Sequential(mg.nn.ReLU(), mg.nn.Tanh()), [], []
    x = mg.Graph().placeholder((2,))
    with observed_calls(outer.append):
        with observed_calls(inner.append):
            model(x)
        model(x)
    model(x)
    kinds = [type(call.module).__name__ for call in outer]
    assert kinds == ["ReLU", "Tanh", "Sequential"] * 2 and len(inner) == 3

    with pytest.raises(ZeroDivisionError), observed_calls(outer.append):
        raise ZeroDivisionError
    model(x)
    assert len(outer) == 6


def test_observers_ignore_calls_on_other_threads():
    seen, others = [], []
    with observed_calls(seen.append):
        thread = threading.Thread(target=lambda: others.append(mg.nn.ReLU()(mg.Graph().placeholder((2,)))))
        thread.start()
        thread.join()
    assert len(others) == 1 and seen == []


def test_unbuilt_copy_has_no_parameters_and_preserves_shared_layers():
    layer = mg.nn.Linear(2)
    model = mg.nn.Sequential(layer, mg.nn.ReLU(), layer)
    model(mg.Graph().placeholder((-1, 2)))
    twin = unbuilt_copy(model)
    assert twin[0] is twin[2] and twin[0] is not layer and not own_parameters(twin[0])
    twin(mg.Graph().placeholder((-1, 2)))
    assert list(own_parameters(twin[0])) == list(own_parameters(layer)) == ["weight", "bias"]
    assert settings_of(twin[0]) == settings_of(layer)
    assert settings_of(layer) != settings_of(mg.nn.Linear(3))
