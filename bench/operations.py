"""Single operations, a few of each family, forward or with their gradient: ours and PyTorch's, each in one process.

The sizes are those at which a training step or a preprocessing step meets them; a call takes between tenths of a
millisecond and tens. None should be slower than 1.5 times PyTorch's: those that are stand at the end of the table.
"""

import contextlib
from collections.abc import Callable

import mpsgraph as mg
import numpy as np
from harness.compare import Contender, Workload, rows_of, take_turns
from harness.options import Options, main, progress
from harness.protocol import Step
from harness.report import Row
from harness.sides import Running, Side, SideFailed, ours, torch_operations
from workloads import OPERATIONS

TARGET = 1.5
Build = Callable[..., mg.Tensor | list[mg.Tensor]]
"""From a graph and its inputs to what is computed."""

OURS: dict[str, Build] = {}


def operation(name: str) -> Callable[[Build], Build]:
    """Registers how ours computes the operation of this name in workloads.OPERATIONS."""

    def register(build: Build) -> Build:
        OURS[name] = build
        return build

    return register


def gradients_of(result_of: Build) -> Build:
    """The same operation's gradients by all its inputs, of the sum of its result."""

    def build(g: mg.Graph, *inputs: mg.Tensor) -> list[mg.Tensor]:
        total = g.reduction_sum(result_of(g, *inputs))
        found = g.gradients(total, list(inputs))
        return [found[x] for x in inputs]

    return build


def simple(name: str, **arguments: object) -> Build:
    """A method of the graph with these keyword arguments."""
    return lambda g, *inputs: getattr(g, name)(*inputs, **arguments)


OURS |= {
    "sine": simple("sin"),
    "tangent": simple("tan"),
    "arc_tangent": simple("atan"),
    "hyperbolic_sine": simple("sinh"),
    "power": simple("power"),
    "logarithm_base2": simple("logarithm_base2"),
    "floor_modulo": simple("floor_modulo"),
    "softmax": simple("softmax", axis=-1),
    "softmax_gradient": gradients_of(lambda g, x: g.square(g.softmax(x, axis=-1))),
    "sum_of_rows": simple("reduction_sum", axes=1),
    "sum_of_columns": simple("reduction_sum", axes=0),
    "maximum_of_rows": simple("reduction_maximum", axes=1),
    "product_of_rows": simple("reduction_product", axes=1),
    "argument_of_maximum": simple("reduction_arg_maximum", axis=1),
    "variance": simple("variance", axes=[1]),
    "transpose": simple("transpose", permutation=[1, 0]),
    "transpose_images": simple("transpose", permutation=[0, 3, 1, 2]),
    "concatenate": lambda g, a, b: g.concat([a, b], 1),
    "gather_rows": lambda g, x, i: g.gather(x, i, axis=0),
    "gather_rows_gradient": lambda g, x, i: g.gradients(g.reduction_sum(g.square(g.gather(x, i, axis=0))), x)[x],
    "one_hot": simple("one_hot", depth=100),
    "pad": simple("pad", left=[0, 2, 2, 0], right=[0, 2, 2, 0]),
    "pad_reflecting": simple("pad", left=[0, 2, 2, 0], right=[0, 2, 2, 0], mode="reflect"),
    "matrix_multiplication": simple("matrix_multiplication"),
    "batched_matrix_multiplication": simple("matrix_multiplication"),
    "convolution": simple("convolution2d", padding="TF_SAME"),
    "convolution_gradient": gradients_of(simple("convolution2d", padding="TF_SAME")),
    "convolution_1x1": simple("convolution2d"),
    "max_pooling": simple("max_pooling2d", kernel=2),
    "max_pooling_gradient": gradients_of(simple("max_pooling2d", kernel=2)),
    "average_pooling": simple("avg_pooling2d", kernel=3, padding="TF_SAME", strides=1),
    "uniform": lambda g: g.random_uniform((1 << 20,)),
    "normal": lambda g: g.random_normal((1 << 20,)),
    "cast_to_half": simple("cast", dtype=mg.float16),
}


def arrays(name: str) -> list[np.ndarray]:
    """The inputs of an operation: floats in [0.5, 1.5), or integers below the bound that stands in for a type."""
    rng = np.random.default_rng(0)
    made = []
    for shape, below in OPERATIONS[name]:
        if below:
            made.append(rng.integers(0, below, shape).astype(np.int32))
        else:
            made.append(rng.random(shape, np.float32) + np.float32(0.5))
    return made


def build(name: str) -> Step:
    g = mg.Graph()
    values = arrays(name)
    inputs = [g.placeholder(v.shape, v.dtype) for v in values]
    targets = OURS[name](g, *inputs)
    targets = targets if isinstance(targets, list) else [targets]
    feeds = dict(zip(inputs, values, strict=True))

    def step() -> None:
        g.run(feeds, targets)

    return step


def measure(options: Options) -> list[Row]:
    rows: list[list[Row]] = []
    sides: list[Side] = [ours(__file__, "operations"), *(torch_operations() if options.peers else [])]
    short = Options(
        rounds=min(options.rounds, 5), turn_seconds=options.turn_seconds / 4, patience=options.patience / 20
    )
    with contextlib.ExitStack() as stack, progress("operations") as say:
        running = [stack.enter_context(Running(side)) for side in sides]
        for name in OURS:
            contenders = [Contender(process, name) for process in running]
            try:
                for contender in contenders:
                    contender.prepare(short.turn_seconds)
            except SideFailed as failure:
                raise SideFailed(f"{name}: {failure}") from failure
            take_turns(contenders, short, lambda what, name=name: say(f"{name}: {what}"))
            rows.append(
                rows_of(Workload(name, str([shape for shape, _ in OPERATIONS[name]]), TARGET, False), contenders)
            )
    rows.sort(key=lambda of_one: of_one[0].ratio.median if of_one[0].ratio else 0.0)
    return [row for of_one in rows for row in of_one]


if __name__ == "__main__":
    main(measure, {"operations": build})
