"""Run PyTorch's own operator samples (op_db, float32) forward and backward through the backend, and print a summary.

    python tests/pytorch/operators.py                    all samples, in one process per processor
    python tests/pytorch/operators.py --only 'linalg'    samples whose name matches a pattern
    python tests/pytorch/operators.py --every 20         every twentieth sample

A sample passes if nothing falls back to PyTorch and its results and gradients equal those of eager mode within the
tolerance. It is refused if a call falls back to PyTorch, which is listed with its reason, and wrong otherwise. Samples
that Dynamo does not capture as a whole, or that PyTorch itself cannot run, are not counted. The exit status is nonzero
if a wrong sample is not listed in WRONG.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import logging
import os
import random
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import mpsgraph as mg
import numpy as np
import torch
import torch.utils._pytree as tree

PER = 2
"""Number of samples per operator: the first and the last."""

TOLERANCE = 1e-4
"""Tolerance relative to the largest number of a result, or to 1 if that is larger."""

# Wider tolerances: (name pattern, factor, reason).
WIDER: list[tuple[str, float, str]] = []

# Calls allowed to fall back to PyTorch: (name pattern, reason). Any other fallback counts as an error.
SIZES = "the size of a result, or an index, depends on values, and PyTorch graphs are specialized by size"
REFUSED: list[tuple[str, str]] = [
    (r"^(argwhere|nonzero|masked_select|combinations|unique|unique_consecutive)\.", SIZES),
    (r"^(index_fill\.1|index_put\.1|narrow\.1|repeat_interleave\.1|tensor_split\.0)$", SIZES),
    (r"^chalf\.", "complex numbers of two float16 values are not a supported dtype"),
    (r"^linalg\.ldl_", "LAPACK's LDL pivots in 2 x 2 blocks"),
    (r"^hash_tensor\.", "hashes the bits of all elements in uint64"),
    (r"^nn\.functional\.embedding_bag\.", "embedding bags renormalize rows in place"),
    (r"^nn\.functional\.linear_cross_entropy\.chunked", "implemented in Python, not in ATen"),
]

# Samples allowed to differ from PyTorch: (name pattern, reason).
WRONG: list[tuple[str, str]] = []

DRAWN = "random: only shape and dtype can be compared"

# Operators whose results are uninitialized memory.
UNWRITTEN = re.compile(r"^(new_)?empty(_|\.|$)")


class Sample:
    """An operator with all arguments fixed except its tensors."""

    def __init__(self, info: Any, sample: Any) -> None:
        self.leaves, self.spec = tree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.operator, self.process = info.op, sample.output_process_fn_grad
        if info.name in ("linalg.eig", "linalg.eigvals"):
            self.process = _in_order
        self.differentiable = info.supports_autograd

    def tensors(self) -> list[torch.Tensor]:
        given = [self.leaves[i].detach().clone() for i in self.places]
        wanted = [x.requires_grad_(self.differentiable and (x.is_floating_point() or x.is_complex())) for x in given]
        return wanted

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, keywords = tree.tree_unflatten(leaves, self.spec)
        found = self.process(self.operator(*arguments, **keywords))
        return tuple(x for x in tree.tree_leaves(found) if isinstance(x, torch.Tensor))

    def run(self, function: Callable[..., Any], seed: int = 0) -> tuple[list[Any], list[Any]]:
        """Return the results, and the gradients of a fixed weighted sum of them."""
        torch.manual_seed(seed)
        tensors = self.tensors()
        results = function(*tensors)
        loss: Any = 0
        for number, y in enumerate(results):
            if y.requires_grad and (y.is_floating_point() or y.is_complex()):
                factors = np.random.default_rng(number).standard_normal(tuple(y.shape)).astype(np.float32)
                weighed = y * torch.from_numpy(np.asarray(factors))
                loss = loss + (weighed.real + weighed.imag if y.is_complex() else weighed).sum().double()
        wanted = [x for x in tensors if x.requires_grad]
        gradients: list[Any] = []
        if wanted and isinstance(loss, torch.Tensor) and loss.requires_grad:
            gradients = list(torch.autograd.grad(loss, wanted, allow_unused=True))
        return list(results), gradients


def _in_order(found: Any) -> Any:
    """Sort eigenvalues, whose order PyTorch leaves open, and return the magnitudes of eigenvector elements in that
    order.
    """
    values, *vectors = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    places = torch.argsort(values.detach().real + 0.37 * values.detach().imag, dim=-1)
    ordered = [torch.gather(v.abs(), -1, places.unsqueeze(-2).expand(v.shape)) for v in vectors]
    return torch.gather(values, -1, places), *ordered


def samples() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Yield the name of each sample and a function that creates it."""
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if torch.float32 not in info.supported_dtypes("cpu"):
            continue
        yield from ((f"{info.full_name}.{n}", lambda info=info, n=n: _sample(info, n)) for n in range(PER))


_found: dict[str, Any] = {}


def _sample(info: Any, number: int) -> Sample:
    if info.full_name not in _found:
        _found.clear()
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        _found[info.full_name] = list(info.sample_inputs("cpu", torch.float32))
    given = _found[info.full_name]
    places = np.linspace(0, len(given) - 1, min(PER, len(given)))
    if number >= len(places):
        raise LookupError(f"{info.full_name} has only {len(places)} samples")
    return Sample(info, given[int(places[number])])


def differs(found: Any, expected: Any, tolerance: float) -> str:
    """Describe how two tensors differ; return "" if they are equal."""
    if found is None or expected is None:  # A missing gradient counts as zero.
        other = found if expected is None else expected
        return "" if other is None or not other.count_nonzero() else "only one of the two has a gradient"
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{tuple(found.shape)}, not {expected.dtype}{tuple(expected.shape)}"
    if not (found.is_floating_point() or found.is_complex()):
        count = int((found != expected).sum())
        return f"{count} of {found.numel()} elements" if count else ""
    wide = torch.complex128 if found.is_complex() else torch.float64
    a, b = (x.detach().to_dense().to(wide).resolve_conj().resolve_neg().numpy() for x in (found, expected))
    with np.errstate(all="ignore"):
        largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        equal = np.isclose(a, b, rtol=tolerance, atol=tolerance * min(largest, 1e3) * 0.1, equal_nan=True)
    if equal.all():
        return ""
    place = np.unravel_index(np.argmin(equal), equal.shape)
    return f"{int((~equal).sum())} of {equal.size} elements, {a[place]} for {b[place]}"


def outcome(name: str, make: Callable[[], Sample]) -> tuple[str, str]:
    """Return "passed", "refused", "wrong", or "none", and the reason."""
    try:
        sample = make()
        expected, gradients = sample.run(sample)
        again, _ = sample.run(sample, seed=1)
    except Exception as error:  # PyTorch itself cannot run the sample.
        return "none", f"PyTorch: {type(error).__name__}"
    if not expected:
        return "none", "returns no tensor"
    torch._dynamo.reset()
    try:
        with mg.torch.explaining() as seen:
            found, ours = sample.run(mg.torch.compile(sample, fullgraph=True))
    except Exception as error:
        cause = getattr(error, "inner_exception", error)
        why = f"{type(cause).__name__}: {cause}".splitlines()[0][:200]
        if isinstance(error, torch._dynamo.exc.Unsupported) or not _captured(sample):
            return "none", f"Dynamo: {why}"
        return "wrong", why
    if not seen.graphs:
        return "none", "Dynamo: no graph"
    if seen.fallen:
        return "refused", "; ".join(f"{call}: {seen.reasons[call]}" for call in seen.fallen)
    tolerance = TOLERANCE * next((factor for pattern, factor, _ in WIDER if re.search(pattern, name)), 1)
    drawn = UNWRITTEN.match(name) or any(differs(a, b, tolerance) for a, b in zip(expected, again, strict=True))
    if drawn:  # The random numbers differ but have the same distribution.
        same = [x.shape for x in found] == [x.shape for x in expected]
        same = same and [x.dtype for x in found] == [x.dtype for x in expected]
        return ("passed", DRAWN) if same else ("wrong", "different shapes or dtypes")
    each = {f"result {n}": differs(a, b, tolerance) for n, (a, b) in enumerate(zip(found, expected, strict=True))}
    each |= {f"gradient {n}": differs(a, b, tolerance) for n, (a, b) in enumerate(zip(ours, gradients, strict=True))}
    why = "; ".join(f"{place}: {w}" for place, w in each.items() if w)
    return ("wrong", why) if why else ("passed", "")


def _captured(sample: Sample) -> bool:
    """Return whether Dynamo captures the sample with a backend that compiles nothing."""
    torch._dynamo.reset()
    try:
        sample.run(torch.compile(sample, backend="aot_eager", fullgraph=True))
    except Exception:
        return False
    return True


def run_part(only: str, every: int, part: int, parts: int) -> None:
    """Print one line of JSON for each sample of a part; the samples of an operator stay together."""
    chosen = [(name, make) for name, make in samples() if re.search(only, name)]
    for number, (name, make) in enumerate(chosen):
        if number % every == 0 and number // PER % parts == part:
            with contextlib.redirect_stderr(io.StringIO()):
                kind, why = outcome(name, make)
            if kind == "refused" and not any(re.search(pattern, name) for pattern, _ in REFUSED):
                kind = "wrong"
            if kind == "wrong" and any(re.search(pattern, name) for pattern, _ in WRONG):
                kind = "listed"
            print(json.dumps([name, kind, why]), flush=True)


def quiet() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run only samples whose name matches this regular expression")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--part", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="print every sample that does not pass")
    options = parser.parse_args()
    if options.part >= 0:
        quiet()
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
            print(f"a worker process exited with status {part.returncode} after {text.splitlines()[-1:]}")
        results += [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    for name, kind, why in sorted(results):
        if kind in ("wrong", "refused") or options.verbose and kind != "passed":
            print(f"{kind} {name}: {why[:300]}")
    counts = collections.Counter(kind for _, kind, _ in results)
    captured, drawn = counts.total() - counts["none"], sum(why == DRAWN for _, _, why in results)
    share = counts["passed"] / max(captured, 1)
    print(
        f"{captured} samples captured by Dynamo: {counts['passed']} pass ({share:.1%}), of which {drawn} are random "
        f"and compared by shape and dtype; {counts['refused']} refused, {counts['listed']} differ for a known "
        f"reason, {counts['wrong']} wrong. {counts['none']} not counted. {time.monotonic() - began:.0f} s"
    )
    return 1 if counts["wrong"] or any(part.returncode for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
