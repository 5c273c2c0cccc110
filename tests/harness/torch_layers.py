"""PyTorch's results for layers and losses, stored in tests/data/torch_layers.npz, and the comparison with ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import mpsgraph as mg
import numpy as np


def _read() -> dict[str, np.ndarray]:
    """Return the stored arrays by name. All arrays of a dtype are stored one after the other in a single array."""
    found: dict[str, np.ndarray] = {}
    with np.load(Path(__file__).parents[1] / "data" / "torch_layers.npz") as archive:
        rest = {kind: archive[kind] for kind in ("float32", "int32", "bool")}
        for name, (kind, shape) in json.loads(str(archive["index"])).items():
            size = int(np.prod(shape))
            found[name], rest[kind] = rest[kind][:size].reshape(shape), rest[kind][size:]
    return found


_STORED = _read()


def stored(case: str, kind: str) -> dict[str, np.ndarray]:
    """Return the stored arrays of a case: by number for the kinds "in", "out" and "d_in", by name for "p" and "d_p"."""
    prefix = f"{case}/{kind}."
    found = {key.removeprefix(prefix): value for key, value in _STORED.items() if key.startswith(prefix)}
    return {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in found.items()}


def names() -> list[str]:
    return sorted({key.split("/")[0] for key in _STORED})


def agree(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    scale = float(np.abs(wanted).max()) if wanted.size else 0.0
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-7 * max(scale, 1.0), err_msg=what)


def compare(
    case: str,
    function: Callable[..., mg.Tensor | Sequence[mg.Tensor]],
    *,
    module: mg.nn.Module | None = None,
    state: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]] = dict,
    arrange: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    known: bool = True,
) -> None:
    """Assert that values and gradients of a function of the case's inputs equal those of PyTorch.

    Args:
        case: Name of the stored case.
        function: Computes the results from tensors of the inputs.
        module: Module whose parameters are set and whose gradients are compared.
        state: Converts PyTorch's parameters, or their gradients, to the module's state.
        arrange: Converts inputs and results from PyTorch's memory layout to ours.
        known: Whether the placeholders have static shapes. Otherwise only the rank and the last size are static.
    """
    g = mg.Graph()
    inputs = {i: arrange(x) for i, x in stored(case, "in").items()}
    fed = {}
    for i, x in inputs.items():
        shape = x.shape if known else tuple(-1 if axis < x.ndim - 1 else n for axis, n in enumerate(x.shape))
        fed[i] = g.placeholder(shape, x.dtype)
    results = function(*fed.values())
    outputs = [results] if isinstance(results, mg.Tensor) else list(results)
    wanted = {i: arrange(y) for i, y in stored(case, "out").items()}
    assert len(outputs) == len(wanted)
    loss = None
    for place, (y, value) in enumerate(zip(outputs, wanted.values(), strict=True)):
        # cos(0), cos(1), ... in PyTorch's order of elements.
        plain = stored(case, "out")[str(place)]
        weights = arrange(np.cos(np.arange(plain.size)).reshape(plain.shape))
        part = g.reshape(g.reduction_sum(y * g.constant(weights, dtype="float64")), ())
        loss = part if loss is None else loss + part
        assert weights.shape == value.shape
    targets = {f"result {i}": y for i, y in enumerate(outputs)}
    expected = {f"result {i}": y for i, y in enumerate(wanted.values())}
    slopes = {i: arrange(d) for i, d in stored(case, "d_in").items()}
    parameters = dict(module.named_parameters()) if module is not None else {}
    gradients = g.gradients(loss, [*(fed[i] for i in slopes), *parameters.values()])
    targets |= {f"gradient of input {i}": gradients[fed[i]] for i in slopes}
    expected |= {f"gradient of input {i}": d for i, d in slopes.items()}
    if module is not None:
        module.load_state_dict({**module.state_dict(), **state(stored(case, "p"))})
        d_parameters = state(stored(case, "d_p"))
        assert set(d_parameters) == set(parameters)
        targets |= {f"gradient of {name}": gradients[parameters[name]] for name in d_parameters}
        expected |= {f"gradient of {name}": d for name, d in d_parameters.items()}
    found = g.run({fed[i]: x for i, x in inputs.items()}, list(targets.values()))
    for what, target in targets.items():
        agree(found[target].numpy(), expected[what], f"{case}: {what}")
