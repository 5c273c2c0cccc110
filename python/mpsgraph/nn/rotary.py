"""RotaryPositions: rotary position encoding, with the scalings that extend it to longer sequences.

`frequencies` computes the rotation frequencies of each scaling. Two scalings, "dynamic" and "longrope", depend on the
length of the sequence, which is known only at run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._checks import Size
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from .layers import shape_of_sizes, size_in_run
from .parts import graph_of
from .positions import AttentionPositions

_ORIGINAL = "original_max_position_embeddings"
_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "default": (set(), set()),
    "linear": ({"factor"}, set()),
    "dynamic": ({"factor", _ORIGINAL}, set()),
    "llama3": ({"factor", "low_freq_factor", "high_freq_factor", _ORIGINAL}, set()),
    "yarn": (
        {"factor", _ORIGINAL},
        {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"},
    ),
    "longrope": ({"factor", "short_factor", "long_factor", _ORIGINAL}, {"attention_factor"}),
}
"""Required and optional keys of each scaling."""


class RotaryPositions(AttentionPositions):
    """Rotary position encoding: rotate pairs of features by angles proportional to the position.

    Features i of the first and second half of a head rotate together by position / base^(2 i / head size), as in
    Hugging Face's Llama. With interleaved, features 2 i and 2 i + 1 rotate together, as in the paper. Scores then
    depend only on the distance between query and key.

    Args:
        base: Base of the rotation frequencies, above 1. Defaults to 10000.
        interleaved: Whether to pair adjacent features instead of feature i of each half. Defaults to False.
        dimensions: Number of features of each head that rotate, an even number; the remaining features stay unchanged.
            None, the default, means all.
        scaling: How to change the frequencies for longer sequences: a mapping with the keys of `rope_scaling` in a
            Hugging Face config.json, whose "rope_type" is "default", "linear", "dynamic", "llama3", "yarn", or
            "longrope". None, the default, means no scaling.

    Raises:
        GraphError: If base is not finite or not above 1, or scaling has unknown, missing, or invalid entries.
        ShapeError: If the number of rotating features is odd or exceeds the features per head.

    Source: Su et al., arXiv:2104.09864; Peng et al., arXiv:2309.00071 for "yarn"; Ding et al., arXiv:2402.13753 for
        "longrope".

    Example:
        >>> g = mg.Graph()
        >>> x = g.constant([[[[1.0, 0.0]] * 2]])  # one sequence, one head, two positions, two features
        >>> g.run({}, mg.nn.RotaryPositions()(x)).numpy()[0, 0].round(2)
        array([[1.  , 0.  ],
               [0.54, 0.84]], dtype=float32)
        >>> slower = mg.nn.RotaryPositions(scaling={"rope_type": "linear", "factor": 2.0})
        >>> g.run({}, slower(x)).numpy()[0, 0, 1].round(2)
        array([0.88, 0.48], dtype=float32)
    """

    def __init__(
        self,
        base: float = 10000.0,
        *,
        interleaved: bool = False,
        dimensions: int | None = None,
        scaling: Mapping[str, Any] | None = None,
    ) -> None:
        if not 1 < base < math.inf:
            raise GraphError(f"RotaryPositions: base must be finite and above 1, got {base}")
        if dimensions is not None and (dimensions < 2 or dimensions % 2):
            raise ShapeError(f"RotaryPositions: dimensions must be even and at least 2, got {dimensions}")
        self.base, self.interleaved, self.dimensions = base, interleaved, dimensions
        self.scaling = None if scaling is None else checked_scaling(scaling)

    def of_heads(self, num_heads: Size, head_size: int) -> None:
        if self.dimensions is None and head_size % 2:
            raise ShapeError(f"RotaryPositions: the number of features per head must be even, got {head_size}")
        if self.dimensions is not None and self.dimensions > head_size:
            raise ShapeError(
                f"RotaryPositions: dimensions must be at most the number of features per head, {head_size}, got "
                f"{self.dimensions}"
            )

    def turned(self, x: Tensor, places: Tensor, length: Tensor | None = None) -> Tensor:
        """Return queries or keys rotated according to their positions.

        Args:
            x: Queries or keys (N, heads, L, features).
            places: Positions, int32 (L,) or, if they differ between the sequences, (N, L).
            length: Length of the longest sequence, int32 (1,), for scalings that depend on it. None, the default, means
                one more than the largest position.

        Returns:
            A tensor with the shape and dtype of x.
        """
        g, features = graph_of(x), (x.shape or (-1,))[-1]
        self.of_heads(1, features)
        rotating = self.dimensions or features
        if rotating < features:
            rest = g.slice_axis(x, 3, rotating, features - rotating)
            x = g.slice_axis(x, 3, 0, rotating)
        half = rotating // 2
        angles = g.expand_dims(g.cast(places, "float32"), -1) * self._frequencies(places, length, rotating)
        sine, cosine = (wave(angles) for wave in (g.sin, g.cos))
        if (factor := attention_factor(self.scaling)) != 1.0:
            sine, cosine = sine * factor, cosine * factor
        sine, cosine = (g.cast(wave, x.dtype) for wave in (sine, cosine))
        if len(places.shape or ()) == 2:
            sine, cosine = (g.expand_dims(wave, 1) for wave in (sine, cosine))
        last = len(sine.shape or ()) - 1
        if self.interleaved:
            sine, cosine = (g.concat([w, w], last, interleave=True) for w in (sine, cosine))
            pairs = g.reshape(x, shape_of_sizes(x, [*(size_in_run(x, axis) for axis in range(3)), half, 2]))
            swapped = g.concat([-g.slice_axis(pairs, 4, 1, 1), g.slice_axis(pairs, 4, 0, 1)], 4)
            swapped = g.reshape(swapped, shape_of_sizes(x, [size_in_run(x, axis) for axis in range(4)]))
        else:
            sine, cosine = (g.concat([w, w], last) for w in (sine, cosine))
            swapped = g.concat([-g.slice_axis(x, 3, half, half), g.slice_axis(x, 3, 0, half)], 3)
        y = x * cosine + swapped * sine
        return g.concat([y, rest], 3) if rotating < features else y

    def _frequencies(self, places: Tensor, length: Tensor | None, features: int) -> Tensor:
        """Return the rotation frequencies, (features / 2,)."""
        g, kind = graph_of(places), (self.scaling or {}).get("rope_type", "default")
        if kind not in ("dynamic", "longrope"):
            return g.constant(frequencies(self.base, features, self.scaling).astype(np.float32))
        assert self.scaling is not None
        longest = int(self.scaling[_ORIGINAL])
        if length is None:
            length = g.reshape(g.reduction_maximum(places, list(range(len(places.shape or ())))), (1,)) + 1
        if kind == "longrope":
            short, long = (
                g.constant(frequencies(self.base, features, self.scaling, reached).astype(np.float32))
                for reached in (longest, longest + 1)
            )
            return g.select(g.greater_than(length, longest), long, short)
        factor = float(self.scaling["factor"])
        stretched = g.cast(g.maximum(length, longest), "float32") * (factor / longest) - (factor - 1.0)
        powers = np.arange(features // 2) * (2 / features)
        growth = g.logarithm(stretched) * (features / (features - 2)) + math.log(self.base)
        return g.exponent(growth * g.constant(-powers.astype(np.float32)))


def checked_scaling(scaling: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rotary scaling as a dict whose entries have been checked."""
    kind = scaling.get("rope_type", scaling.get("type"))
    if not isinstance(kind, str) or kind not in _KEYS:
        names = ", ".join(f'"{name}"' for name in _KEYS)
        raise GraphError(f"RotaryPositions: scaling must have a rope_type among {names}, got {shown(kind)}")
    required, optional = _KEYS[kind]
    entries = {key: value for key, value in scaling.items() if key not in ("rope_type", "type") and value is not None}
    if unknown := sorted(entries.keys() - required - optional):
        raise GraphError(f'RotaryPositions: scaling "{kind}" does not have the entry {shown(unknown[0])}: remove it')
    if missing := sorted(required - entries.keys()):
        raise GraphError(f'RotaryPositions: scaling "{kind}" requires the entry "{missing[0]}", which is missing')
    for key, value in entries.items():
        numbers = value if key in ("short_factor", "long_factor") else [value]
        if not all(isinstance(n, (int, float)) and math.isfinite(n) and n >= 0 for n in numbers):
            raise GraphError(
                f"RotaryPositions: scaling must have finite numbers of at least 0, got {key}={shown(value)}"
            )
    if entries.get("factor", 1) <= 0 or entries.get(_ORIGINAL, 1) < 1:
        raise GraphError(
            f"RotaryPositions: scaling must have a factor above 0 and {_ORIGINAL} of at least 1, got {shown(entries)}"
        )
    return {"rope_type": kind, **entries}


def attention_factor(scaling: Mapping[str, Any] | None) -> float:
    """Return the factor by which a scaling multiplies the rotated queries and keys."""
    kind = (scaling or {}).get("rope_type", "default")
    if scaling is None or kind not in ("yarn", "longrope"):
        return 1.0
    if "attention_factor" in scaling:
        return float(scaling["attention_factor"])
    factor = float(scaling["factor"])
    if factor <= 1:
        return 1.0
    if kind == "longrope":
        return math.sqrt(1 + math.log(factor) / math.log(scaling[_ORIGINAL]))

    def grown(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0

    numerator, denominator = scaling.get("mscale"), scaling.get("mscale_all_dim")
    return grown(numerator) / grown(denominator) if numerator and denominator else grown(1.0)


def frequencies(
    base: float, features: int, scaling: Mapping[str, Any] | None = None, length: int | None = None
) -> np.ndarray:
    """Return the rotation frequencies of the pairs of features, float64 (features / 2,), in radians per position.

    Args:
        base: Base of the rotation frequencies.
        features: Number of rotating features of each head.
        scaling: A scaling as `checked_scaling` returns it, or None.
        length: Length of the sequence, for scalings that depend on it. None means the original length.
    """
    plain = base ** (-np.arange(0, features, 2) / features)
    kind = (scaling or {}).get("rope_type", "default")
    if scaling is None or kind == "default":
        return plain
    scaled: Callable[[np.ndarray, float, int, Mapping[str, Any], int | None], np.ndarray] = {
        "linear": _linear,
        "dynamic": _dynamic,
        "llama3": _llama3,
        "yarn": _yarn,
        "longrope": _longrope,
    }[kind]
    return scaled(plain, base, features, scaling, length)


def _linear(
    plain: np.ndarray, base: float, features: int, scaling: Mapping[str, Any], length: int | None
) -> np.ndarray:
    return np.asarray(plain / scaling["factor"])


def _dynamic(
    plain: np.ndarray, base: float, features: int, scaling: Mapping[str, Any], length: int | None
) -> np.ndarray:
    """Raise the base with the length, so that the slowest pair covers the longer sequence."""
    longest, factor = scaling[_ORIGINAL], scaling["factor"]
    stretched = factor * max(length or longest, longest) / longest - (factor - 1)
    raised = base * stretched ** (features / (features - 2))
    return np.asarray(raised ** (-np.arange(0, features, 2) / features))


def _llama3(
    plain: np.ndarray, base: float, features: int, scaling: Mapping[str, Any], length: int | None
) -> np.ndarray:
    """Divide the slow frequencies by the factor, keep the fast ones, and interpolate between them."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling[_ORIGINAL] * plain / (2 * math.pi)  # Number of full turns over the original length.
    share = np.clip((turns - low) / (high - low), 0, 1) if high != low else (turns > low).astype(float)
    return np.asarray(plain * (share + (1 - share) / scaling["factor"]))


def _yarn(plain: np.ndarray, base: float, features: int, scaling: Mapping[str, Any], length: int | None) -> np.ndarray:
    """Divide the frequencies by the factor, except those of pairs that turn often over the original length."""

    def pair_with(turns: float) -> float:
        return features * math.log(scaling[_ORIGINAL] / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair_with(scaling.get("beta_fast") or 32), pair_with(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, features - 1)
    if low == high:
        high += 0.001  # The published code divides by the difference.
    share = np.clip((np.arange(features // 2) - low) / (high - low), 0, 1)
    return np.asarray(plain * (1 - share) + plain / scaling["factor"] * share)


def _longrope(
    plain: np.ndarray, base: float, features: int, scaling: Mapping[str, Any], length: int | None
) -> np.ndarray:
    """Divide each frequency by a factor of its own, which depends on whether the sequence is longer than before."""
    key = "long_factor" if (length or 0) > scaling[_ORIGINAL] else "short_factor"
    factors = np.asarray(scaling[key], float)
    if factors.shape != plain.shape:
        raise ShapeError(
            f"RotaryPositions: {key} must have one number for each of the {len(plain)} pairs of rotating features, got "
            f"{len(factors)}"
        )
    return np.asarray(plain / factors)
