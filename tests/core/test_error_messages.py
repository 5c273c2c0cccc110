"""Test error messages for invalid arguments.

Each message must name the argument, the expected value, the received value, and a remedy that works.
test_entry_points.py fuzzes all public functions.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, NoneType

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import _checks
from mpsgraph._display import shown

X, Y = np.ones((600, 4), np.float32), np.arange(600, dtype=np.int32) % 3


def make(**options) -> mg.Trainer:
    return mg.Trainer(mg.nn.Sequential(mg.nn.Linear(3)), **options)


# --- values in messages -----------------------------------------------------------------------------------------------
class Loud:
    def __repr__(self) -> str:
        return "line\n" * 1000


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


SHOWN = {
    "ndarray([0, 1, 2, ...], int64 (5000,))": np.arange(5000),
    "ndarray([1.0, 1.0, 1.0, ...], float32 (600, 4))": X,
    "ndarray(2.5, float64 ())": np.array(2.5),
    "ndarray([], float32 (0, 3))": np.zeros((0, 3), np.float32),
    "ndarray(object (2,))": np.array([None, None]),
    "[0, 1, 2, ...] of length 5000": list(range(5000)),
    "[[[...]], [[...]]]": [[[1] * 9], [[2]]],
    "(1,)": (1,),
    "{'a': 1, 'b': 2, 'c': 3, ...} of length 4": {"a": 1, "b": 2, "c": 3, "d": 4},
    "'abc'": "abc",
    "<Linear>": mg.nn.Linear(3),
    "the module math": math,
    "<Broken>": Broken(),
}


@pytest.mark.parametrize("expected", SHOWN)
def test_values_in_error_messages_are_abbreviated(expected: str):
    assert shown(SHOWN[expected]) == expected


def test_shown_values_are_short_single_lines():
    values = [
        "x" * 9999,
        Loud(),
        [["y" * 999] * 999] * 999,
        {"k" * 999: "v" * 999},
        10**4000,
        np.full(9, "z" * 999),
        [X] * 9,
    ]
    for value in values:
        assert len(shown(value)) <= 260 and "\n" not in shown(value)


def test_long_shapes_in_core_errors_are_abbreviated():
    with pytest.raises(mg.ShapeError, match=r"15,\.\.\.\] of length 5000") as refused:
        mg.Graph().placeholder(list(range(5000)))
    assert len(str(refused.value)) < 200


# --- pybind11 functions -----------------------------------------------------------------------------------------------
BOUND: dict[str, tuple[str, Callable[[], object]]] = {
    "event": (
        r"\[SharedEvent.wait\] takes \(value: int, timeout: float.*got \('two'\)",
        lambda: mg.SharedEvent().wait("two"),
    ),
    "signal": (r"\[SharedEvent.signal\] takes \(value: int\), got \(-1\)", lambda: mg.SharedEvent().signal(-1)),
    "semaphore": (r"\[Semaphore\] takes \(.*int\), got \(1\.5\)", lambda: mg.Semaphore(1.5)),
    "no event": (
        r"\[ExecutionDescriptor.wait_for_event\] takes .*got \(None, 1\)",
        lambda: mg.ExecutionDescriptor().wait_for_event(None, 1),
    ),
    "no event of a buffer": (
        r"\[CommandBuffer.encode_signal_event\] takes .*got \(None, 1\)",
        lambda: mg.CommandQueue().command_buffer().encode_signal_event(None, 1),
    ),
    "passes": (
        r"\[CompilationDescriptor\] takes .*got \(disabled_passes=5\)",
        lambda: mg.CompilationDescriptor(disabled_passes=5),
    ),
    "many": (
        r"\[asarray\] takes \(array: object.*got \(.*\[0, 1, 2, \.\.\.\] of length 900\)$",
        lambda: mg.asarray([1], None, list(range(900))),
    ),
    "variable": (
        r"\[DeviceGraph.variable_value\] takes \(variable: Tensor\), got \(None\)",
        lambda: mg.Graph().variable_value(None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
def test_pybind11_argument_errors_are_single_lines(name: str):
    message, call = BOUND[name]
    with pytest.raises(mg.DTypeError, match=message) as refused:
        call()
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


# --- the trainer ------------------------------------------------------------------------------------------------------
def test_fit_requires_inputs_and_labels_as_one_pair():
    for call in (lambda: make().fit(X, Y, X), lambda: make().fit((X, Y), epochs=Y)):
        with pytest.raises(mg.Error, match=r"Trainer.fit: (takes only data and labels|epochs )") as refused:
            call()
        assert len(str(refused.value)) < 250
    assert len(make().fit(X, Y, progress=False).loss) == 10
    with pytest.raises(mg.GraphError, match=r"the batch has no labels, .* pass a pair of arrays \(inputs, labels\)"):
        make().fit(X, progress=False)
    assert len(make().fit((X.tolist(), Y.tolist()), progress=False).loss) == 10
    history = make().fit((X, Y), epochs=1, progress=False)  # as the error recommends
    assert len(history.loss) == 10


def test_unknown_device_raises_when_trainer_is_created():
    with pytest.raises(mg.DeviceError, match="nowhere"):
        make(device="nowhere")
    with pytest.raises(mg.Error, match="Trainer: device must be a Device, a string or None, got 5"):
        make(device=5)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", "float16"])
def test_suggested_dtype_conversion_fixes_the_error(dtype: str):
    x = X.astype(dtype)
    with pytest.raises(
        mg.DTypeError, match=f"inputs (are|must have the trainer's dtype, float32, got) {dtype}"
    ) as refused:
        make().train_step(x, Y)
    advice = str(refused.value)
    assert r"x.astype('float32')" in advice
    make().train_step(x.astype("float32"), Y).wait()
    if other := re.search(r"dtype='(\w+)'", advice):
        make(dtype=other[1]).train_step(x, Y).wait()
    assert bool(other) == dtype.startswith("float")


def test_learning_rate_of_wrapped_optimizer_is_settable():
    trainer = make(optimizer=mg.optim.ClipByNorm(mg.optim.SGD(0.5), 1.0), metrics=())
    trainer.train_step(X, Y).wait()
    before = trainer.model.state_dict()["0.weight"]
    trainer.optimizer.learning_rate = 0.0
    trainer.train_step(X, Y).wait()
    assert (trainer.model.state_dict()["0.weight"] == before).all() and trainer.learning_rate == 0.0
    trainer.learning_rate = 1e-4
    trainer.optimizer.learning_rate *= 0.5
    assert trainer.learning_rate == 5e-5
    trainer.train_step(X, Y).wait()
    assert (trainer.model.state_dict()["0.weight"] != before).any()
    for wrong in (-1, math.nan, math.inf, "0.1", None, True, [0.1]):
        with pytest.raises(mg.GraphError, match="learning_rate must be a (finite )?number"):
            trainer.optimizer.learning_rate = wrong
    trainer.learning_rate = lambda step: math.nan
    with pytest.raises(mg.GraphError, match="rate for step 3 must be a finite number .*got nan"):
        trainer.train_step(X, Y)


# --- hyperparameters --------------------------------------------------------------------------------------------------
o, nn = mg.optim, mg.nn
OUTSIDE: dict[str, Callable[[float], object]] = {
    "SGD: momentum": lambda v: o.SGD(0.1, momentum=v),
    "SGD: weight_decay": lambda v: o.SGD(0.1, weight_decay=v),
    "Adam: beta1": lambda v: o.Adam(beta1=v),
    "Adam: beta2": lambda v: o.Adam(beta2=v),
    "Adam: epsilon": lambda v: o.Adam(epsilon=v),
    "AdamW: weight_decay": lambda v: o.AdamW(weight_decay=v),
    "RMSProp: decay": lambda v: o.RMSProp(decay=v),
    "Adagrad: initial_sum": lambda v: o.Adagrad(initial_sum=v),
    "AdaDelta: epsilon": lambda v: o.AdaDelta(epsilon=v),
    "ClipByNorm: maximum": lambda v: o.ClipByNorm(o.SGD(), v),
    "LossScaling: initial": lambda v: o.LossScaling(o.SGD(), v),
    "StepRate: rate": lambda v: o.StepRate(v, 10),
    "StepRate: every": lambda v: o.StepRate(0.1, v),
    "CosineRate: steps": lambda v: o.CosineRate(0.1, v),
    "ConstantRate: rate": o.ConstantRate,
    "Dropout: rate": nn.Dropout,
    "BatchNorm: momentum": lambda v: nn.BatchNorm(momentum=v),
    "LayerNorm: epsilon": lambda v: nn.LayerNorm(epsilon=v),
    "LSTM: dropout": lambda v: nn.LSTM(3, dropout=v),
    "Linear: out_features": nn.Linear,
    "Conv2d: kernel_size": lambda v: nn.Conv2d(3, v),
    "Conv2d: strides": lambda v: nn.Conv2d(3, 3, strides=v),
    "Embedding: num_embeddings": lambda v: nn.Embedding(v, 3),
    "MaxPool2d: kernel_size": nn.MaxPool2d,
    "huber: delta": lambda v: nn.losses.huber(*_pair(), delta=v),
    "cross_entropy: label_smoothing": lambda v: nn.losses.cross_entropy(*_pair(), label_smoothing=v),
    "batches: batch_size": lambda v: mg.data.batches((X, Y), v),
}


def _pair() -> tuple[mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    return g.constant(X), g.constant(X)


@pytest.mark.parametrize("name", OUTSIDE)
def test_out_of_range_hyperparameters_raise(name: str):
    for wrong in (-1, math.nan, "3", None, {}):
        with pytest.raises(mg.Error, match=f"^{name} must be .*got {re.escape(shown(wrong))}"):
            OUTSIDE[name](wrong)


@pytest.mark.parametrize("value", [np.float32([1, 2, 4]), [1.0, 2.0, 4.0], (1, 2, 4), np.array([1, 2, 4])])
def test_class_weights_accept_arrays_and_lists(value):
    g = mg.Graph()
    logits, labels = g.constant(np.float32([[1, 2, 3], [3, 1, 0], [0, 0, 5]])), g.constant([0, 1, 2])
    z = np.float64([[1, 2, 3], [3, 1, 0], [0, 0, 5]])
    logarithms = (z - np.log(np.exp(z).sum(-1, keepdims=True)))[np.arange(3), [0, 1, 2]]
    expected = -(np.float64([1, 2, 4]) * logarithms).sum() / 7
    assert g.run({}, nn.losses.cross_entropy(logits, labels, class_weights=value)).item() == pytest.approx(expected)
    with pytest.raises(mg.ShapeError, match=r"class_weights must have one entry .* got shape \(2,\)"):
        nn.losses.cross_entropy(logits, labels, class_weights=value[:2])
    weighed = nn.losses.binary_cross_entropy_with_logits(logits, logits * 0 + 1, positive_weight=value)
    expected = (np.float64([1, 2, 4]) * np.log1p(np.exp(-z))).mean()
    assert g.run({}, weighed).item() == pytest.approx(expected, rel=1e-5)


# --- packages ---------------------------------------------------------------------------------------------------------
def test_saving_non_graph_object_raises(tmp_path: Path):
    with pytest.raises(mg.GraphError, match="no training step to save: train or evaluate first"):
        mg.save(tmp_path / "p", make())
    for wrong in (mg.nn.Linear(2), np.ones(3), None, "model"):
        with pytest.raises(mg.GraphError, match="save: graph must be a graph, a model, or a trainer, got .*state_dict"):
            mg.save(tmp_path / "p", wrong)
    module = mg.nn.Linear(2)
    module(mg.Graph().placeholder((1, 2)))
    mg.checkpoint.save(tmp_path / "p", module.state_dict())  # as the error recommends
    assert set(mg.checkpoint.load(tmp_path / "p")[0]) == {"weight", "bias"}


def test_packages_omit_source_locations_by_default(tmp_path: Path):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    mg.save(tmp_path / "p", g, [x], {"y": x * 2})
    assert "test_error_messages" not in (tmp_path / "p" / "graph.txt").read_text()
    mg.Model(g, {"x": x}, {"y": x * 2}).save(tmp_path / "p", locations=True)
    assert "test_error_messages.py:" in (tmp_path / "p" / "graph.txt").read_text()
    with pytest.raises(mg.GraphError, match="no input 'z': its inputs are 'x'"):
        mg.load(tmp_path / "p").run({"z": np.ones(2, np.float32)})


# --- tensors ----------------------------------------------------------------------------------------------------------
def test_invalid_operator_operand_raises():
    x = mg.Graph().placeholder((3,), name="x")
    for call in (lambda: "abc" * x, lambda: x < "abc", lambda: x @ None, lambda: {} - x):
        with pytest.raises(mg.DTypeError, match=r"^\[\w+\] \w+ must be a tensor(.*)?, got "):
            call()
    for call in (bool, float, int, iter, np.asarray):
        with pytest.raises(mg.DTypeError, match="^x "):
            call(x)


def test_passing_class_instead_of_instance_raises():
    with pytest.raises(mg.GraphError, match=r"Sequential: layers must be .*pass an instance, ReLU\(\.\.\.\)"):
        nn.Sequential(nn.ReLU)
    with pytest.raises(mg.GraphError, match=r"Linear: weight_initialiser must be .*HeNormal\(\.\.\.\)"):
        nn.Linear(2, weight_initialiser=nn.initialisers.HeNormal)


# --- annotations ------------------------------------------------------------------------------------------------------
def test_fast_annotation_checks_agree_with_resolved_types():
    """The fast argument check parses annotations as text; for every public function it must agree with the resolved
    types.
    """
    seen = set()
    contents = [v for name, m in list(sys.modules.items()) if name.startswith("mpsgraph") for v in vars(m).values()]
    members = [v for owner in contents if isinstance(owner, type) for v in vars(owner).values()]
    doors = {f for f in contents + members if isinstance(f, FunctionType) and f.__code__ is mg.save.__code__}
    assert len(doors) > 200
    for function in map(inspect.unwrap, doors):
        for text in function.__annotations__.values():
            plain = _checks._plain_types(text) if isinstance(text, str) else None
            if plain is not None:
                hint = _checks.resolved(text, function)
                check = _checks._check_of(hint)
                assert check and plain - {NoneType} == _checks._usual_types_of(hint) - {NoneType}, text
                assert NoneType not in plain or check(None), text
                if not _checks._WITH_INTS.isdisjoint(text.split(" | ")):
                    assert check([1, 2]) and check((3,)) and check(()), text
                seen.add(text)
    assert {"Tensor", "str | None", "TensorLike", "ShapeLike", "AttributeLike", "Axes", "Sequence[int]"} <= seen


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (int | Sequence[int], [3, (1, 2), [], np.arange(2), range(2), (1, np.int64(2))], [True, 1.0, (1, 2.0), "1"]),
        (Sequence[float], [[1, 2.5], (np.float32(1),)], [1.0, [True], ["a"], {1.0}]),
        (tuple[int, int], [(1, 2)], [(), (1,), (1, 2, 3), (1, 2.0)]),
        (tuple[int, ...] | None, [None, (), (1, 2, 3)], [1, (1.0,)]),
    ],
)
def test_sequence_annotation_checks_accept_only_matching_values(hint, right, wrong):
    check = _checks._check_of(hint)
    assert check is not None
    assert all(check(value) for value in right)
    assert not any(check(value) for value in wrong)


def test_unknown_padding_style_raises_and_names_the_argument_and_the_style_meant():
    g = mg.Graph()
    x, w = g.placeholder((1, 8, 8, 4)), g.placeholder((3, 3, 4, 8))
    with pytest.raises(mg.GraphError, match=r"\[convolution2d\] padding must be .* got 'same': use 'TF_SAME'"):
        g.convolution2d(x, w, padding="same")
    with pytest.raises(mg.GraphError, match=r"\[max_pooling2d\] padding must be .* got 'full'$"):
        g.max_pooling2d(x, 2, padding="full")
