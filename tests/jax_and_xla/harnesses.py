"""Run JAX's own primitive harnesses through mpsgraph.jax.jit, compare with jax.jit, and print a summary.

    python tests/jax_and_xla/harnesses.py                     all harnesses, in one process per processor
    python tests/jax_and_xla/harnesses.py --only 'svd|qr'     harnesses whose name matches a pattern
    python tests/jax_and_xla/harnesses.py --every 20          every twentieth harness

A harness passes if all results are equal within its tolerance, is refused if mpsgraph names an unsupported feature, and
is wrong otherwise. The exit status is nonzero if a wrong harness is not listed in WRONG, with its reason.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import warnings

os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compile the reference results quickly.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
# Cache the compiled reference for later runs.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path(__file__).parents[2] / "build" / "jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import mpsgraph as mg
import numpy as np

# Absolute and relative tolerances by dtype.
TOLERANCES = {"float64": 1e-12, "complex128": 1e-12, "float32": 1e-5, "complex64": 1e-5, "float16": 2e-3}
TOLERANCES |= {"bfloat16": 2e-2}

# Wider tolerances: (name pattern, factor, reason).
WIDER = [
    (r"^(svd|eigh|eig_|qr|lu|cholesky|custom_linear_solve|triangular_solve)", 100, "sums in a different order"),
    (
        r"^conv_general_dilated|^dot_general|^reduce_window|^fft|^cum|^reduce_(sum|prod|gen)",
        20,
        "sums in a different order",
    ),
    (r"^(lgamma|digamma|igamma|igammac|regularized_incomplete_beta|random_gamma)", 20, "different approximations"),
    (r"^(tan|atanh|acosh|asinh|pow|exp|cosh|sinh|erf_inv)_", 10, "other approximations"),
]

# Harnesses allowed to differ from JAX: (name pattern, reason).
WRONG = [
    (
        r"^sort_multiple_arrays_.*_isstable_False_num_keys_[12]$",
        "the order of equal keys, which JAX leaves unspecified; mpsgraph keeps it stable",
    ),
    (
        r"^approx_top_k_large_.*(bfloat16|float16)",
        "which of equal elements comes first, which JAX leaves unspecified; mpsgraph takes the first",
    ),
    (r"^conv_general_dilated_preferred_lhs_complex64_.*preferred_complex128", "XLA multiplies in complex64 and widens"),
    (
        r"^top_k_sort_inf_nan",
        "XLA sorts one of two NaNs first and the other last; mpsgraph sorts NaN before all numbers",
    ),
]


def harnesses():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from jax._src.internal_test_util import test_harnesses

    return [h for h in test_harnesses.all_harnesses if h.filter("cpu")]


def tolerance(name: str, dtype) -> float:
    factor = next((f for pattern, f, _ in WIDER if re.search(pattern, name)), 1)
    return TOLERANCES.get(np.dtype(dtype).name, 0) * factor


def differs(found, expected, tol: float) -> str:
    """Describe how two arrays differ; return "" if they are equal."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{found.shape}, not {expected.dtype}{expected.shape}"
    if found.dtype.kind in "iub":
        count = int((found != expected).sum())
        return f"{count} of {found.size} elements" if count else ""
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        equal = np.isclose(a, b, rtol=tol, atol=tol, equal_nan=True)
    if equal.all():
        return ""
    place = np.unravel_index(np.argmin(equal), equal.shape)
    return f"{int((~equal).sum())} of {equal.size} elements, {a[place]} for {b[place]}"


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def same_decomposition(group: str, params: dict, operand, found, expected, tol: float) -> str:
    """Compare decompositions whose signs or vectors are not unique: their values and the reconstructed matrix."""
    found, expected = [np.asarray(x) for x in found], [np.asarray(x) for x in expected]
    if group == "svd":
        if (why := differs(found[0], expected[0], tol)) or len(found) == 1:
            return why
        s, u, vt = found
        k = s.shape[-1]
        why = differs((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], operand, tol)
        units = [(adjoint(u) @ u, "u"), (vt @ adjoint(vt), "v")]
        for product, name in units:
            eye = np.broadcast_to(np.eye(product.shape[-1], dtype=product.dtype), product.shape)
            why = why or (f"{name} is not unitary" if differs(product, eye, tol) else "")
        return why
    if group == "eigh":
        vectors, values = (found[0], found[1]) if found[0].ndim > found[1].ndim else (found[1], found[0])
        theirs = expected[1] if expected[0].ndim > expected[1].ndim else expected[0]
        return differs(values, theirs, tol) or differs(operand @ vectors, vectors * values[..., None, :], tol)
    values, theirs = found[0], expected[0]
    for one, other in ((values, theirs), (theirs, values)):
        if one.size:
            nearest = np.abs(one[..., :, None] - other[..., None, :]).min(-1).max()
            if nearest > tol * max(1, np.abs(one).max()):
                return f"an eigenvalue is off by {nearest}"
    vectors = found[1:]
    if params["compute_left_eigenvectors"] and values.size:
        left = adjoint(vectors[0])
        if why := differs(left @ operand, values[..., :, None] * left, tol):
            return f"left: {why}"
    if params["compute_right_eigenvectors"] and values.size:
        right = vectors[-1]
        if why := differs(operand @ right, right * values[..., None, :], tol):
            return f"right: {why}"
    return ""


def outcome(harness) -> tuple[str, str]:
    """Return "passed", "refused", "skipped", or "wrong", and the reason."""
    arguments = harness.dyn_args_maker(np.random.RandomState(0))
    try:
        expected = jax.jit(harness.dyn_fun)(*arguments)
    except Exception as error:  # JAX itself cannot run the harness.
        return "skipped", f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        found = mg.jax.jit(harness.dyn_fun)(*arguments)
    except mg.UnsupportedError as error:
        return "refused", str(error).splitlines()[0]
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}".splitlines()[0]
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(expected)
    if jax.tree.structure(found) != jax.tree.structure(expected):
        return "wrong", "the results have a different structure"
    if any(jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended) for x in theirs):
        ours, theirs = ([jax.random.key_data(x) for x in side] for side in (ours, theirs))
    tol = tolerance(harness.fullname, theirs[0].dtype if theirs else np.float32)
    if harness.group_name in ("svd", "eigh", "eig"):
        why = same_decomposition(harness.group_name, harness.params, np.asarray(arguments[0]), ours, theirs, tol)
    else:
        each = [differs(a, b, tolerance(harness.fullname, b.dtype)) for a, b in zip(ours, theirs, strict=True)]
        why = "; ".join(f"result {n}: {w}" for n, w in enumerate(each) if w)
    return ("wrong", why) if why else ("passed", "")


def run_part(only: str, every: int, part: int, parts: int) -> None:
    """Print one line of JSON for each harness of a part."""
    chosen = [h for h in harnesses() if re.search(only, h.fullname)][::every][part::parts]
    for number, harness in enumerate(chosen):
        kind, why = outcome(harness)
        if kind == "wrong" and any(re.search(pattern, harness.fullname) for pattern, _ in WRONG):
            kind = "listed"
        print(json.dumps([harness.group_name, harness.fullname, kind, why]), flush=True)
        if number % 100 == 99:
            jax.clear_caches()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run only harnesses whose name matches this regular expression")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--part", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="print every harness that does not pass")
    options = parser.parse_args()
    if options.part >= 0:
        warnings.simplefilter("ignore")
        run_part(options.only, options.every, options.part, options.processes)
        return 0
    began = time.monotonic()
    command = [sys.executable, __file__, "--only", options.only, "--every", str(options.every)]
    command += ["--processes", str(options.processes)]
    parts = [
        subprocess.Popen([*command, "--part", str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(options.processes)
    ]
    results = []
    for part in parts:
        text = part.communicate()[0]
        if part.returncode:
            print(f"a worker process exited with status {part.returncode}")
            return 2
        results += [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    counts = collections.Counter(kind for _, _, kind, _ in results)
    reasons = collections.Counter((kind, group, re.sub(r"[-\d.e+]+|\(.*?\)", "#", why)[:110])
                                  for group, _, kind, why in results if kind != "passed")  # fmt: skip
    for (kind, group, why), count in sorted(reasons.items(), key=lambda item: (item[0][0], -item[1])):
        print(f"{count:5} {kind} {group}: {why}")
    if options.verbose:
        for _, name, kind, why in results:
            if kind != "passed":
                print(f"{kind} {name}: {why[:300]}")
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"{len(results)} harnesses: {shown}; {time.monotonic() - began:.0f} s")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
