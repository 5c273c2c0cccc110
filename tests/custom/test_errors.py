"""Test errors of custom operations: invalid sources, missing compilers, unsupported dtypes, and failing kernels."""

from __future__ import annotations

import shutil
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest

COPY = """
void NAME(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i];
  BODY
}
"""


def copying(name: str, body: str = "", **options) -> mg.CustomOperation:
    return mg.custom_operation(name, cpu=COPY.replace("NAME", name).replace("BODY", body), **options)


def run(operation: mg.CustomOperation, value=(1.0, 2.0, 3.0), dtype="float32") -> np.ndarray:
    g = mg.Graph()
    value = np.asarray(value, mg.DType(dtype).numpy)
    x = g.placeholder(value.shape, dtype=dtype)
    return g.run({x: value}, operation(x)).numpy()


# --- sources ---------------------------------------------------------------------------------------------------------


def test_compile_error_has_compiler_output_and_user_lines():
    with pytest.raises(mg.GraphError, match=r"\[bad\] the C\+\+ source does not compile(.|\n)*bad\.cpp:3:") as error:
        mg.custom_operation("bad", cpu="// one\nvoid bad(mpsgraph::custom::Call& call) {\n  undeclared = call;\n}\n")
    assert "undeclared" in str(error.value)


def test_source_without_the_kernel_function_raises():
    with pytest.raises(mg.GraphError, match=r"(.|\n)*missing"):
        mg.custom_operation("missing", cpu="int nothing;")
    other = mg.custom_operation(
        "named_otherwise", cpu=COPY.replace("NAME", "in_source").replace("BODY", ""), function="in_source"
    )
    np.testing.assert_array_equal(run(other), [1, 2, 3])


def test_source_can_be_corrected_after_a_compile_error():
    with pytest.raises(mg.GraphError):
        copying("mended", "oops")
    np.testing.assert_array_equal(run(copying("mended")), [1, 2, 3])


def test_missing_compiler_raises(monkeypatch, tmp_path):
    monkeypatch.setenv("MPSGRAPH_CUSTOM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(mg.UnsupportedError, match=r"no C\+\+ compiler found .*install.*CXX.*load_custom_operations"):
        copying("uncompiled")
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(mg.UnsupportedError, match="no-such-compiler"):
        copying("uncompiled")


def test_unwritable_cache_raises(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MPSGRAPH_CUSTOM_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.raises(mg.DeviceError, match="cannot write to the cache directory.*MPSGRAPH_CUSTOM_CACHE"):
        copying("unkept")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": "two words", "cpu": ""}, mg.GraphError, "name must consist of letters"),
        ({"name": "nothing"}, mg.GraphError, "there is no source"),
        ({"name": "a", "cpu": Path("nowhere.cpp")}, mg.GraphError, "cannot read the source file nowhere.cpp"),
        ({"name": "a", "cpu": "", "function": "f()"}, mg.GraphError, "function must be a valid C"),
        ({"name": "a", "cpu": "", "version": "1 2"}, mg.GraphError, "version may only contain letters"),
        (
            {"name": "a", "metal": "", "infer": "shapes"},
            mg.GraphError,
            "infer must be a Python function or the name of a function in cpu",
        ),
        ({"name": "a", "cpu": "", "dtypes": []}, mg.DTypeError, "dtypes must not be empty"),
        ({"name": "a", "cpu": "", "dtypes": ["float33"]}, mg.DTypeError, "float33"),
        ({"name": "a", "cpu": "", "attributes": {"x": None}}, mg.GraphError, "attribute x must be a bool"),
        ({"name": "a", "cpu": "", "attributes": {"x": (1, 2.5)}}, mg.GraphError, "attribute x must be a bool"),
        ({"name": "a", "cpu": "", "attributes": {"name": 1}}, mg.GraphError, "'name' in attributes is not allowed"),
        ({"name": "a", "metal": "", "attributes": {"key": 1}}, mg.GraphError, "'key' is reserved"),
    ],
)
def test_invalid_custom_operation_arguments_raise(arguments, error, words):
    with pytest.raises(error, match=words):
        mg.custom_operation(**arguments)


# --- dtypes -----------------------------------------------------------------------------------------------------------


def test_unsupported_operand_dtypes_raise():
    operation = copying("only_floats")
    g = mg.Graph()
    with pytest.raises(mg.DTypeError, match=r"\[only_floats\] operand 0 \('x'\) must be float32, got int32\[2\]"):
        operation(g.placeholder((2,), dtype=mg.int32, name="x"))
    assert g.operation_count == 1
    mixed = mg.custom_operation(
        "mixed", cpu=COPY.replace("NAME", "mixed").replace("BODY", ""), dtypes=[["float32"], ["int32", "int64"]]
    )
    x, i = g.placeholder((2,)), g.placeholder((2,), dtype=mg.int64)
    assert mixed(x, i).dtype == mg.float32
    with pytest.raises(mg.DTypeError, match=r"operand 1.*must be int32, int64"):
        mixed(x, x)
    with pytest.raises(mg.GraphError, match="the number of operands must be 2, got 1"):
        mixed(x)


def test_kernel_accessing_operand_as_wrong_dtype_raises():
    operation = copying("confused", dtypes=["float32", "int32"])
    with pytest.raises(
        mg.DeviceError, match=r"\[confused\] the kernel of 'confused'.*operand 0 has dtype int32, but .* float32"
    ):
        run(operation, dtype="int32")


@pytest.mark.parametrize(
    ("infer", "error", "words"),
    [
        (lambda x: "float32", mg.GraphError, "infer must return a TensorType"),
        (lambda x: mg.TensorType(x.dtype, (-2,)), mg.ShapeError, "for result 0"),
        (lambda x: [("float33", (1,))], mg.DTypeError, "float33"),
        (lambda x: mg.TensorType(x.dtype, (1,) * 17), mg.ShapeError, "at most 16|result 0"),
    ],
)
def test_invalid_inferred_types_raise(infer, error, words):
    operation = copying("untyped", infer=infer)
    with pytest.raises(error, match=words):
        operation(mg.Graph().placeholder((2,)))


def test_inconsistent_inference_raises():
    operation = copying("unsteady", infer=lambda x: mg.TensorType(x.dtype, x.shape if x.shape == (-1,) else (3, 3)))
    g = mg.Graph()
    x = g.placeholder((-1,))
    with pytest.raises(mg.ShapeError, match="contradicts the result types"):
        g.run({x: np.zeros(3, np.float32)}, operation(x))


def test_custom_operation_can_have_no_operands():
    source = "void pi(mpsgraph::custom::Call& c) { c.result<float>(0)[0] = 3.25f; }"
    operation = mg.custom_operation("pi", cpu=source, infer=lambda: mg.TensorType(mg.float32, ()))
    g = mg.Graph()
    assert float(g.run({}, operation(graph=g)).numpy()) == 3.25
    with pytest.raises(mg.GraphError, match="none of the operands is a tensor"):
        operation()
    unlike = mg.custom_operation("pi", cpu=source)
    with pytest.raises(mg.GraphError, match="without operands needs a shape inference function"):
        unlike(graph=g)


# --- failing kernels --------------------------------------------------------------------------------------------------


def test_exception_in_kernel_aborts_the_run():
    operation = copying("thrower", 'throw std::runtime_error("no more of " + std::to_string(x.size()));')
    with pytest.raises(
        mg.DeviceError, match=r"\[thrower\] the kernel of 'thrower'; built at test_errors.py:\d+ failed: no more of 3"
    ):
        run(operation)
    number = copying("throws_number", "throw 7;")
    with pytest.raises(mg.DeviceError, match="expected an exception derived from std::exception"):
        run(number)


def test_exception_in_parallel_for_aborts_the_run():
    operation = copying(
        "thrower_within",
        'call.parallel_for(9999, 1, [](int64_t begin, int64_t) { if (begin > 9) throw std::logic_error("within"); });',
    )
    with pytest.raises(mg.DeviceError, match="within"):
        run(operation)


def test_missing_custom_operands_and_attributes_raise():
    with pytest.raises(mg.DeviceError, match=r"operand 1 is out of range: the operation has 1 operand\(s\)"):
        run(copying("too_far", "call.operand<float>(1);"))
    with pytest.raises(mg.DeviceError, match=r"result 2 is out of range: the operation has 1 result\(s\)"):
        run(copying("too_far_2", "call.result<float>(2);"))
    with pytest.raises(mg.DeviceError, match="no attribute 'lambd'"):
        run(copying("unnamed", 'call.real("lambd");'))
    with pytest.raises(mg.DeviceError, match="attribute 'n' must have kind real, got integer"):
        run(copying("otherwise", 'call.real("n");', attributes={"n": 1}))
    with pytest.raises(mg.DeviceError, match="axis 1 is out of range for a tensor of rank 1"):
        run(copying("no_axis", "x.dim(1);"))


def test_failing_kernel_leaves_variables_unchanged():
    operation = copying("failing", 'if (x[0] > 5) throw std::runtime_error("too large");')
    g = mg.Graph()
    x = g.placeholder((1,))
    v = g.variable([1.0])
    update = g.assign(v, operation(x))
    g.run({x: np.float32([2])}, [], [update])
    with pytest.raises(mg.DeviceError, match="too large"):
        g.run({x: np.float32([9])}, [], [update])
    g.run({x: np.float32([3])}, [], [update])
    assert g.variable_value(v).tolist() == [3.0]


# --- guard ------------------------------------------------------------------------------------------------------------

OVERRUNS = {
    "y[x.size()] = 0;": r"1 byte after result 0 of 12 bytes",
    "y[x.size() + 2] = 0;": r"9 bytes after result 0",
    "y[-2] = 5;": r"5 bytes before result 0",
    "const_cast<float*>(x.data())[1] = 7;": r"wrote to operand 0, but operands are read-only",
    "const_cast<float*>(x.data())[-1] = 7;": r"1 byte before operand 0",
}


@pytest.mark.parametrize("body", OVERRUNS)
def test_custom_guard_detects_out_of_bounds_writes(body):
    operation = copying("overrun", body, guard=True)
    with pytest.raises(mg.DeviceError, match=rf"\[overrun\] the kernel of 'overrun'.* {OVERRUNS[body]}"):
        run(operation)


def test_custom_guard_accepts_correct_kernels(monkeypatch):
    np.testing.assert_array_equal(run(copying("within_bounds", guard=True)), [1, 2, 3])
    operation = copying("guarded_by_variable", "y[x.size()] = 0;")
    monkeypatch.setenv("MPSGRAPH_GUARD_CUSTOM", "1")
    with pytest.raises(mg.DeviceError, match="wrote outside its tensors"):
        run(operation)
    monkeypatch.setenv("MPSGRAPH_GUARD_CUSTOM", "0")
    np.testing.assert_array_equal(run(copying("within_bounds")), [1, 2, 3])


def test_cpp_compiler_is_available_for_custom_operations():
    """Without a compiler, the other tests would be meaningless."""
    assert shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
