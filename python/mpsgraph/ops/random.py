"""Random tensors from the Philox 4x32-10 generator, and dropout.

With a state tensor, the caller manages the state and gets (values, new_state). Without one, the graph owns a hidden
variable that advances with every run; it is seeded by the `seed` argument, or by the graph's seed and the number of the
operation, and checkpoints include it like any other variable. Integers and uniform numbers are bit-identical on every
machine and match TensorFlow's for the same key and counter; on the CPU, the same holds for normally distributed float32
numbers. States are created by mpsgraph.random and `random_philox_state`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, overload

from .._core import bfloat16, float16, float32
from ..random import philox_state
from ._family import DTypeLike, Family, GraphError, ShapeLike, Tensor, as_dtype, constant_data


def own_random_states(graph: Random) -> list[Tensor]:
    """Return the random states that the graph has created for operations without a state argument."""
    return graph._own_states


@contextmanager
def repeated_random_states(graph: Random, states: list[Tensor]) -> Iterator[None]:
    """Within a `with` block, draw random numbers from given states before creating others, which are added to the list.

    A part of a graph that is built again thereby uses the states that it used the first time.
    """
    count = len(graph._own_states)
    graph._repeated_states = list(states)
    try:
        yield
    finally:
        graph._repeated_states = []
    states += graph._own_states[count:]


class Random(Family):
    """Graph methods for random numbers, their states, and dropout."""

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
        """Create a state for `random` from a seed, or from a counter and a key.

        The result is the constant int32[7] = [1, four counter words, two key words], low words first.

        Args:
            seed: 64-bit key, with the counter at 0. Defaults to None, which uses key.
            counter_low: Lower 64 bits of the counter. Defaults to 0.
            counter_high: Upper 64 bits of the counter. Defaults to 0.
            key: 64-bit key, used if seed is None. Defaults to 0.
            name: Name of the operation.

        Returns:
            An int32 tensor of shape (7,).

        Raises:
            ShapeError: If a number is not a 64-bit integer.

        Gradient: none.

        Source: MPSGraph randomPhiloxStateTensorWithSeed:name:, randomPhiloxStateTensorWithCounterLow:counterHigh:key:.

        Example:
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
        """Draw random numbers from any of the supported distributions.

        Args:
            shape: Shape of the result, as ints or as an integer tensor of rank 1.
            state: State to draw from, int32[7]. None, the default, draws from a state that the graph keeps.
            distribution: "uniform" (the default): in [min, max), or for integers in [min_integer, max_integer);
                "normal": with mean and standard_deviation; or "truncated_normal": normal numbers between min and max.
            dtype: dtype of the result. Defaults to float32.
            min: Lower bound. Defaults to 0 for uniform numbers, and to two standard deviations below the mean for
                truncated normal numbers.
            max: Upper bound. Defaults to 1 for uniform numbers, and to two standard deviations above the mean for
                truncated normal numbers.
            min_integer: Lower bound of integers. Defaults to 0.
            max_integer: Upper bound of integers, exclusive. Defaults to 2^31 - 1.
            inclusive: Whether max_integer is included, as in MPSGraph. Defaults to False.
            mean: Mean of normal numbers. Defaults to 0.
            standard_deviation: Standard deviation of normal numbers. Defaults to 1.
            sampling_method: "box_muller" (the default), which TensorFlow uses and which redraws numbers outside the
                bounds; or "inverse_cdf", the default of MPSGraph.
            advance: How far drawing n numbers moves the counter: "tensorflow" (256 n blocks, the default) or "blocks"
                (the number of blocks used).
            seed: Seed of the state that the graph keeps, as in random_philox_state. None, the default, derives it from
                the graph's seed.
            name: Name of the operation.

        Returns:
            A tensor of random numbers or, if state was given, the pair (values, new_state).

        Raises:
            ShapeError: If shape has negative sizes or elements other than ints, or state is not int32[7].
            DTypeError: If the distribution does not support dtype, or state is not int32.
            GraphError: If both state and seed are given, distribution, sampling_method, or advance has an unknown
                value, or no number is within the bounds.

        Gradient: none.

        Source: MPSGraph randomTensorWithShape:descriptor:stateTensor:name: and its variants; Salmon et al., "Parallel
        random numbers: as easy as 1, 2, 3", 2011.

        Example:
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
                raise GraphError(
                    "[random] state and seed are mutually exclusive, because the state determines the numbers: pass one"
                )
            values, new_state = self._tensors("random", [operand, state], name, **attributes)
            return values, new_state
        return self._random_of_own_state(operand, attributes, seed, name)

    def _own_state(self, seed: int | None) -> Tensor:
        """Create the variable that holds the random state of an operation.

        If part of the graph is built again, return the variable that was created the first time.
        """
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
        """Return random values drawn from a state variable that the graph owns.

        The returned tensor depends on the update of that variable, so every run that uses the values also advances the
        state.
        """
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
        """Draw uniformly distributed numbers in [minimum, maximum).

        Integers match TensorFlow's: 32 or 64 random bits modulo maximum - minimum. If the range is a large part of all
        such integers, lower numbers are more likely: for int32 in [0, 3 * 2^29), a number below 2^30 is 1.5 times as
        likely as a larger one.

        Args:
            shape: Shape of the result, as ints or as an integer tensor of rank 1.
            minimum: Lower bound. Defaults to 0.
            maximum: Upper bound, exclusive. Defaults to 1.
            dtype: dtype of the result, floating-point or, with integer bounds, integer. Defaults to float32.
            state: State to draw from, int32[7]. None, the default, draws from a state that the graph keeps.
            seed: Seed of the state that the graph keeps. None, the default, derives it from the graph's seed.
            name: Name of the operation.

        Returns:
            A tensor of random numbers or, if state was given, the pair (values, new_state).

        Raises:
            ShapeError: If shape has negative sizes or elements other than ints, or state is not int32[7].
            DTypeError: If dtype is neither floating-point nor integer, or state is not int32.
            GraphError: If both state and seed are given, or no number is within the bounds.

        Gradient: none.

        Source: MPSGraph randomUniformTensorWithShape:stateTensor:name: and its variants.

        Example:
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
        """Draw normally distributed numbers.

        Args:
            shape: Shape of the result, as ints or as an integer tensor of rank 1.
            mean: Mean of the distribution. Defaults to 0.
            standard_deviation: Standard deviation of the distribution. Defaults to 1.
            dtype: Floating-point dtype of the result. Defaults to float32.
            sampling_method: "box_muller" (the default) or "inverse_cdf", which inverts the distribution function.
            state: State to draw from, int32[7]. None, the default, draws from a state that the graph keeps.
            seed: Seed of the state that the graph keeps. None, the default, derives it from the graph's seed.
            name: Name of the operation.

        Returns:
            A tensor of random numbers or, if state was given, the pair (values, new_state).

        Raises:
            ShapeError: If shape has negative sizes or elements other than ints, or state is not int32[7].
            DTypeError: If dtype is not floating-point, or state is not int32.
            GraphError: If both state and seed are given, sampling_method is unknown, or standard_deviation is negative.

        Gradient: none.

        Source: MPSGraph randomTensorWithShape:descriptor:stateTensor:name:, distribution normal.

        Example:
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
        """Draw normally distributed numbers between two bounds.

        Args:
            shape: Shape of the result, as ints or as an integer tensor of rank 1.
            mean: Mean of the distribution before truncation. Defaults to 0.
            standard_deviation: Standard deviation of the distribution before truncation. Defaults to 1.
            dtype: Floating-point dtype of the result. Defaults to float32.
            minimum: Lower bound. None, the default, means two standard deviations below the mean.
            maximum: Upper bound. None, the default, means two standard deviations above the mean.
            sampling_method: "box_muller" (the default), which redraws numbers outside the bounds, or "inverse_cdf".
            state: State to draw from, int32[7]. None, the default, draws from a state that the graph keeps.
            seed: Seed of the state that the graph keeps. None, the default, derives it from the graph's seed.
            name: Name of the operation.

        Returns:
            A tensor of random numbers or, if state was given, the pair (values, new_state).

        Raises:
            ShapeError: If shape has negative sizes or elements other than ints, or state is not int32[7].
            DTypeError: If dtype is not floating-point, or state is not int32.
            GraphError: If both state and seed are given, no number is within the bounds, or so few numbers are within
                the bounds that sampling_method must be "inverse_cdf".

        Gradient: none.

        Source: MPSGraph randomTensorWithShape:descriptor:stateTensor:name:, distribution truncatedNormal.

        Example:
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
        """Set random elements of x to zero and scale up the others so that the expected value is unchanged.

        result = u >= rate ? x / (1 - rate) : 0, where u is uniform in [0, 1).

        Args:
            x: Floating-point tensor.
            rate: Fraction of elements to drop, a number or a tensor of rank 0 in [0, 1).
            state: State of random() to draw from, int32[7]. None, the default, draws from a state that the graph keeps.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x or, if state was given, the pair (values, new_state).

        Raises:
            ShapeError: If state is not int32[7].
            DTypeError: If x is not floating-point, or state is not int32.
            GraphError: If rate is a number outside [0, 1).

        Gradient: the incoming gradient through the same mask.

        Source: MPSGraph dropoutTensor:rate:name: and dropoutTensor:rateTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> sorted(set(g.run({}, g.dropout(g.constant(1.0, (100,)), 0.5)).tolist()))
            [0.0, 2.0]
        """
        if not isinstance(rate, Tensor) and not 0 <= float(rate) < 1:
            raise GraphError(f"[dropout] rate must be at least 0 and less than 1 (the fraction dropped), got {rate}")
        # float16 and bfloat16 have too few values between 0 and 1 to drop exactly the requested fraction.
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
    """Return the bounds as the operation expects them: for truncated normals, in standard deviations from the mean."""
    given = {key: float(v) for key, v in (("min", minimum), ("max", maximum)) if v is not None}
    if distribution != "truncated_normal":
        return given
    if given and not deviation > 0:
        raise GraphError(f"[random] standard_deviation must be positive if min or max is given, got {deviation}")
    names = {"min": "lower", "max": "upper"}
    return {names[key]: (v - mean) / deviation for key, v in given.items()}
