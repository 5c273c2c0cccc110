"""Random tensors on Philox 4x32-10, and dropout.

With a state tensor the caller carries the state: (values, new_state). Without one the graph owns a hidden variable that
advances with every run, made of the seed that was given, or of the graph's seed and the operation's number; checkpoints
carry it like any other variable. Integers and uniform numbers are the same bits on every machine, and those of
TensorFlow for the same key and counter; on the CPU so are normal ones of float32. States are made by mpsgraph.random
and `random_philox_state`.
"""

from __future__ import annotations

from typing import Any, overload

from .._core import bfloat16, float16, float32
from ..random import philox_state
from ._family import DTypeLike, Family, GraphError, ShapeLike, Tensor, as_dtype, constant_data


class Random(Family):
    """random and its short forms, random_philox_state, dropout."""

    seed: int
    _random_count: int
    _own_states: list[Tensor]
    _repeated_states: list[Tensor]

    def random_philox_state(
        self,
        seed: int | None = None,
        *,
        counter_low: int = 0,
        counter_high: int = 0,
        key: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """A state for `random`: constant int32[7] = [1, four counter words, two key words], low words first.

        Args: seed, the key, with counter 0; or counter_low, counter_high and key, of 64 bits each.
        Errors: ShapeError for a number that is not of 64 bits. Gradient: none.
        Source: MPSGraph randomPhiloxStateTensorWithSeed:name:, randomPhiloxStateTensorWithCounterLow:counterHigh:key:.

        >>> g = mg.Graph()
        >>> g.run({}, g.random_philox_state(counter_low=2, counter_high=3, key=1)).tolist()
        [1, 2, 0, 3, 0, 1, 0]
        """
        state = philox_state(key if seed is None else seed, counter_low, counter_high)
        return self._tensor("constant", [], name, value=constant_data(state, None, None))

    @overload
    def random(self, shape: ShapeLike, state: Tensor, **descriptor: Any) -> tuple[Tensor, Tensor]: ...

    @overload
    def random(self, shape: ShapeLike, state: None = None, **descriptor: Any) -> Tensor: ...

    def random(  # type: ignore[misc]  # the overloads leave the description's names to this signature
        self,
        shape: ShapeLike,
        state: Tensor | None = None,
        *,
        distribution: str = "uniform",
        dtype: DTypeLike = "float32",
        min: float | None = None,
        max: float | None = None,
        min_integer: int = 0,
        max_integer: int = 2**31 - 1,
        inclusive: bool = False,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        sampling_method: str = "box_muller",
        advance: str = "tensorflow",
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Random numbers by a full description.

        Args:
            shape: ints, or an int tensor of rank 1. state: int32[7]; None: the graph keeps one, whose first value is
                that of random_philox_state(seed), or if there is no seed made of the graph's.
            distribution: "uniform" in [min, max), by default [0, 1), for integers in [min_integer, max_integer), or
                with inclusive, as MPSGraph has it, up to and with max_integer; "normal" with mean and
                standard_deviation; "truncated_normal", the same between min and max, by default two standard
                deviations to each side.
            dtype: the result's. sampling_method: "box_muller", TensorFlow's, which draws again what lies outside of
                bounds, or "inverse_cdf", MPSGraph's default.
            advance: how far a draw of n moves the counter, "tensorflow" (256 n blocks) or "blocks" (those used).
        Result: values, with a state (values, new_state). Errors: ShapeError, DTypeError, GraphError.
        Gradient: none. Source: MPSGraph randomTensorWithShape:descriptor:stateTensor:name: and its family; Salmon et
        al., "Parallel random numbers: as easy as 1, 2, 3", 2011.

        >>> g = mg.Graph(seed=1)
        >>> dice = g.random((1000,), dtype=mg.int32, min_integer=1, max_integer=6, inclusive=True)
        >>> set(g.run({}, dice).tolist()) == {1, 2, 3, 4, 5, 6}
        True
        """
        attributes: dict[str, Any] = {
            "distribution": distribution,
            "dtype": as_dtype(dtype),
            "min_integer": min_integer,
            "max_integer": max_integer + 1 if inclusive else max_integer,
            "mean": float(mean),
            "standard_deviation": float(standard_deviation),
            "sampling_method": sampling_method,
            "advance": advance,
        }
        attributes |= _bounds(distribution, min, max, float(mean), float(standard_deviation))
        operand = self._shape_operand(shape, "random")
        if state is not None:
            if seed is not None:
                raise GraphError("[random] a state and a seed were given: the state says already what comes")
            values, new_state = self._tensors("random", [operand, state], name, **attributes)
            return values, new_state
        return self._random_of_own_state(operand, attributes, seed, name)

    def _own_state(self, seed: int | None) -> Tensor:
        """A variable for a state; where a part of the graph is built a second time, that of the first time."""
        if self._repeated_states:
            return self._repeated_states.pop(0)
        if seed is None:
            first = philox_state(self.seed, 0, self._random_count)
            self._random_count += 1
        else:
            first = philox_state(seed)
        state = self._tensor("variable", [], "random_state", value=constant_data(first, None, None))
        self._own_states.append(state)
        return state

    def _random_of_own_state(
        self, shape: Tensor, attributes: dict[str, Any], seed: int | None, name: str | None
    ) -> Tensor:
        """The values only exist together with the step of their state: an identity after the assign."""
        state = self._own_state(seed)
        values, new_state = self._tensors("random", [shape, state], None, **attributes)
        update = self._operation("assign", [state, new_state])
        self.begin_control_dependencies([update])
        try:
            return self._tensor("identity", [values], name or "random")
        finally:
            self.end_control_dependencies()

    @overload
    def random_uniform(
        self,
        shape: ShapeLike,
        minimum: float = 0.0,
        maximum: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        state: Tensor,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def random_uniform(
        self,
        shape: ShapeLike,
        minimum: float = 0.0,
        maximum: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        state: None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor: ...

    def random_uniform(
        self,
        shape: ShapeLike,
        minimum: float = 0.0,
        maximum: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        state: Tensor | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Uniform numbers in [minimum, maximum).

        Args: shape, ints or an int tensor of rank 1; dtype, floating point, or an integer dtype with integer bounds;
        state, seed as in random. Result: values, with a state (values, new_state). Errors: ShapeError, DTypeError.
        Gradient: none. Source: MPSGraph randomUniformTensorWithShape:stateTensor:name: and its family.
        Integers are TensorFlow's numbers: 32 or 64 random bits modulo maximum - minimum. Over a range that is a large
        part of all of them, the lower numbers come more often: of int32 in [0, 3 * 2^29), those below 2^30 three times
        to the others' two.

        >>> g = mg.Graph()
        >>> values, state = g.random_uniform((2,), state=g.random_philox_state(0))
        >>> [round(v, 4) for v in g.run({}, values).tolist()]
        [0.3118, 0.8263]
        """
        kind = as_dtype(dtype)
        bounds: dict[str, Any] = {"min": minimum, "max": maximum}
        if kind.is_integer:
            bounds = {"min_integer": int(minimum), "max_integer": int(maximum)}
        return self.random(shape, state, distribution="uniform", dtype=kind, seed=seed, name=name, **bounds)

    @overload
    def random_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        sampling_method: str = "box_muller",
        state: Tensor,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def random_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        sampling_method: str = "box_muller",
        state: None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor: ...

    def random_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        sampling_method: str = "box_muller",
        state: Tensor | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Normally distributed numbers, by Box and Muller's method or by inverting the distribution.

        Args: shape, ints or an int tensor of rank 1; mean, standard_deviation, in the result's units; dtype, floating
        point; state, seed, sampling_method as in random. Result: values, with a state (values, new_state). Errors:
        ShapeError, DTypeError, GraphError.
        Gradient: none. Source: MPSGraph randomTensorWithShape:descriptor:stateTensor:name:, distribution normal.

        >>> g = mg.Graph()
        >>> bool(abs(g.run({}, g.random_normal((10000,))).numpy().std() - 1) < 0.05)
        True
        """
        arguments: dict[str, Any] = {"mean": mean, "standard_deviation": standard_deviation, "dtype": dtype}
        arguments |= {"sampling_method": sampling_method, "seed": seed}
        return self.random(shape, state, distribution="normal", name=name, **arguments)

    @overload
    def random_truncated_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        sampling_method: str = "box_muller",
        state: Tensor,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def random_truncated_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        sampling_method: str = "box_muller",
        state: None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor: ...

    def random_truncated_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        dtype: DTypeLike = "float32",
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        sampling_method: str = "box_muller",
        state: Tensor | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Normally distributed numbers between two bounds.

        Args: minimum, maximum, in the result's units, None for two standard deviations from the mean; the others and
        the result as random_normal. Errors: as there, GraphError when the bounds are empty, or hold so few numbers
        that sampling_method must be "inverse_cdf". Gradient: none.
        Source: MPSGraph randomTensorWithShape:descriptor:stateTensor:name:, distribution truncatedNormal.

        >>> g = mg.Graph()
        >>> bool(abs(g.run({}, g.random_truncated_normal((10000,))).numpy()).max() < 2)
        True
        """
        arguments: dict[str, Any] = {"mean": mean, "standard_deviation": standard_deviation, "dtype": dtype}
        arguments |= {"sampling_method": sampling_method, "seed": seed, "min": minimum, "max": maximum}
        return self.random(shape, state, distribution="truncated_normal", name=name, **arguments)

    @overload
    def dropout(
        self, x: Tensor, rate: Tensor | float, *, state: Tensor, name: str | None = None
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def dropout(self, x: Tensor, rate: Tensor | float, *, state: None = None, name: str | None = None) -> Tensor: ...

    def dropout(
        self, x: Tensor, rate: Tensor | float, *, state: Tensor | None = None, name: str | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """x with elements dropped at random, the others raised so that the expectation stays.

        result = u >= rate ? x / (1 - rate) : 0, u uniform in [0, 1).
        Args: x, a floating-point dtype; rate, the share that is dropped, a number or tensor of rank 0 in [0, 1); state
        as in random. Result: x's shape and dtype, with a state (values, new_state). Errors: DTypeError.
        Gradient: incoming through the same mask. Source: MPSGraph dropoutTensor:rate:name:, dropoutTensor:rateTensor:.

        >>> g = mg.Graph()
        >>> sorted(set(g.run({}, g.dropout(g.constant(1.0, (100,)), 0.5)).tolist()))
        [0.0, 2.0]
        """
        if not isinstance(rate, Tensor) and not 0 <= float(rate) < 1:
            raise GraphError(
                f"[dropout] rate is the share that is dropped, from 0 up to but not including 1, got {rate}"
            )
        # The halves know too few numbers between 0 and 1 to drop the right share.
        precise = float32 if x.dtype in (float16, bfloat16) else x.dtype
        drawn = self.random(self._dropout_shape(x), state, dtype=precise)
        uniform, new_state = (drawn, None) if isinstance(drawn, Tensor) else drawn
        share = self._operands("dropout", [rate, uniform])[0]
        if share.dtype != precise:
            share = self._tensor("cast", [share], dtype=precise)
        keep = self._tensor("cast", [self._tensor("greater_than_or_equal_to", [uniform, share])], dtype=precise)
        scale = self._tensor("division", [keep, self._tensor("subtraction", [1, share])])
        if precise != x.dtype:
            scale = self._tensor("cast", [scale], dtype=x.dtype)
        values = self._tensor("multiplication", [x, scale], name)
        return values if new_state is None else (values, new_state)

    def _dropout_shape(self, x: Tensor) -> Any:
        shape = x.shape
        return self._tensor("shape_of", [x]) if shape is None or min(shape, default=0) < 0 else shape


def _bounds(
    distribution: str, minimum: float | None, maximum: float | None, mean: float, deviation: float
) -> dict[str, float]:
    """The bounds as the operation has them: of truncated normals in standard deviations from the mean."""
    given = {key: float(v) for key, v in (("min", minimum), ("max", maximum)) if v is not None}
    if distribution != "truncated_normal":
        return given
    if given and not deviation > 0:
        raise GraphError(f"[random] min and max need a standard_deviation above 0, it is {deviation}")
    names = {"min": "lower", "max": "upper"}
    return {names[key]: (v - mean) / deviation for key, v in given.items()}
