"""Large element-wise values with late users are computed again, if that keeps no other value in memory for longer."""

from collections.abc import Callable

import mpsgraph as mg
import numpy as np
import pytest

ROWS, WIDTH = 512, 640  # 1.3 MB of float32, more than the pass leaves in memory
RNG = np.random.default_rng(0)


def compiled_text(g: mg.Graph, x: mg.Tensor, targets: list[mg.Tensor]) -> str:
    texts: dict[str, str] = {}
    options = mg.CompilationDescriptor(observe=lambda name, text: texts.__setitem__(name, text))
    g.compile({x: (ROWS, WIDTH)}, targets, options=options)
    return texts["fuse_elementwise"]


def chain(g: mg.Graph, y: mg.Tensor, count: int = 3) -> mg.Tensor:
    for _ in range(count):
        weights = (RNG.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
        y = g.matrix_multiplication(y, g.variable(weights))
    return y


Late = Callable[[mg.Graph, mg.Tensor, mg.Tensor, mg.Tensor], mg.Tensor]
CASES: dict[str, tuple[int, int, Late]] = {
    "source_stays": (2, 3, lambda g, late, source, value: late * value + source),
    "two_late_users": (2, 3, lambda g, late, source, value: late * value + source * (1.0 - value)),
    "source_does_not_stay": (1, 3, lambda g, late, source, value: late * value),
    "near_user": (1, 1, lambda g, late, source, value: late * value + source),
    "late_matmul": (1, 3, lambda g, late, source, value: chain(g, value, 1) + late * value + source),
    "late_reduction_alone": (1, 3, lambda g, late, source, value: late + source + g.reduction_sum(value, 1) * 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_computed_again_only_where_nothing_else_stays_longer(name):
    count, matmuls, late = CASES[name]
    g = mg.Graph()
    x = g.placeholder((-1, WIDTH), name="x")
    source = chain(g, x, 1)
    value = g.sigmoid(source)
    result = late(g, chain(g, source * value, matmuls), source, value)
    text = compiled_text(g, x, [result])
    assert text.count("= sigmoid(") == count, text
    fed = {x: RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)}
    unfused = mg.CompilationDescriptor(disabled_passes=["fuse_elementwise"])
    plain = g.compile({x: (ROWS, WIDTH)}, [result], options=unfused).run([fed[x]])[0]
    np.testing.assert_allclose(g.run(fed, result), plain, rtol=1e-5, atol=1e-5)


def test_small_values_stay():
    g = mg.Graph()
    x = g.placeholder((16, WIDTH), name="x")
    source = chain(g, x, 1)
    value = g.sigmoid(source)
    result = chain(g, source * value) * value + source
    texts: dict[str, str] = {}
    options = mg.CompilationDescriptor(observe=lambda name, text: texts.__setitem__(name, text))
    g.compile({x: (16, WIDTH)}, [result], options=options)
    assert texts["fuse_elementwise"].count("= sigmoid(") == 1


def test_a_gated_layer_keeps_two_arrays_for_its_gradient():
    class Gated(mg.nn.Module):
        def __init__(self) -> None:
            self.gate, self.up, self.down = mg.nn.Linear(2048), mg.nn.Linear(2048), mg.nn.Linear(WIDTH)

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            return x + self.down(mg.nn.SiLU()(self.gate(x)) * self.up(x))

    def intermediates(layers: int) -> int:
        model = mg.nn.Sequential(*(Gated() for _ in range(layers)))
        trainer = mg.Trainer(model, "mse", optimizer=mg.optim.SGD(1e-3), metrics=(), device="cpu", seed=0)
        x = np.zeros((ROWS, WIDTH), np.float32)
        return trainer.memory_estimate((x, x)).intermediates

    hidden, narrow = ROWS * 2048 * 4, ROWS * WIDTH * 4
    # The gate, the other factor, and the product, which the gradient of the last matmul's weights needs; and the input.
    assert intermediates(8) - intermediates(4) <= 4 * (3 * hidden + 2 * narrow)
