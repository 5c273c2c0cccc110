"""Test values whose last axis is rounded up for tensor cores, with the rounding forced on a CPU."""

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import mpsgraph as mg  # noqa: E402
from jax import numpy as jnp  # noqa: E402

WORDS = 1030  # Rounded up to 1,088.


def test_a_matmul_of_padded_sizes_equals_the_plain_one():
    from mpsgraph.jax.lax.matrix import on_tensor_cores

    rng = np.random.default_rng(0)
    for a, b in (((2, 3, 1029), (1029, 5)), ((3, 4), (4, 1030)), ((2, 1031, 7), (2, 7, 1033)), ((1025,), (1025, 2))):
        x, y = (jax.numpy.asarray(rng.normal(size=shape), jax.numpy.bfloat16) for shape in (a, b))
        if x.ndim < 2:
            x = x[None]
        expected = jax.numpy.matmul(x.astype(np.float32), y.astype(np.float32))
        found = on_tensor_cores(x, y)[..., : y.shape[-1]]
        assert found.shape == expected.shape and found.dtype == x.dtype
        np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2e-2, atol=2e-2 * a[-1] ** 0.5)


class Model(mg.nn.Sequential):
    ignored_label = -100

    def __init__(self) -> None:
        super().__init__(mg.nn.Embedding(WORDS, 16), mg.nn.Linear(16), mg.nn.Linear(WORDS, bias=False))


def trained(engine: mg.jax.Engine | None) -> tuple[list[float], dict[str, np.ndarray]]:
    """Train in bfloat16 on labels of which some are ignored; return the losses and the weights."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.integers(WORDS, size=(2, 4, 6), dtype=np.int32)
    labels[1, 2:] = -100
    trainer = mg.Trainer(
        Model(),
        optimizer=mg.optim.SGD(0.5),
        metrics=(),
        precision="bfloat16",
        seed=0,
        **({"engine": engine} if engine else {}),
    )
    losses = [float(trainer.train_step(inputs, labels)) for _ in range(3)]
    return losses, dict(trainer.model.state_dict())


@pytest.fixture
def tensor_cores(monkeypatch):
    monkeypatch.setattr(mg.jax.Engine, "has_tensor_cores", True)


def test_training_with_a_rounded_vocabulary_matches_the_plain_program(monkeypatch):
    plain, weights = trained(mg.jax.Engine())
    monkeypatch.setattr(mg.jax.Engine, "has_tensor_cores", True)
    rounded, rounded_weights = trained(mg.jax.Engine())
    np.testing.assert_allclose(rounded, plain, rtol=2e-3)
    for name, value in weights.items():
        np.testing.assert_allclose(rounded_weights[name], value, atol=5e-3, err_msg=name)


def test_the_loss_reads_and_writes_rounded_logits_without_slices(tensor_cores, monkeypatch):
    """All passes over the logits have the rounded size; only the weights of the last layer are padded."""
    from mpsgraph.jax.functions import Program

    shapes: set[str] = set()

    def run(program, state, feeds, *options):
        made = jax.make_jaxpr(lambda state, feeds: original(program, state, feeds, *options)[1])(state, feeds)
        shapes.update(re.findall(r":(\w+\[[\d,]+\]) = pad\[", str(made)))
        return original(program, state, feeds, *options)

    original = Program.run
    monkeypatch.setattr(Program, "run", run)
    trained(mg.jax.Engine())
    assert shapes == {"bf16[16,1088]", "bf16[1088,16]"}


@pytest.mark.parametrize("filler", [0.0, np.inf])
def test_only_zeros_extend_a_wide_value_through_select(filler):
    """A matmul multiplies the columns beyond the tensor's own with zeros, and infinity times zero is NaN."""
    from mpsgraph.jax.functions import Program

    g = mg.Graph()
    a, b, keep = g.placeholder((4, 8), "bfloat16"), g.placeholder((8, WORDS), "bfloat16"), g.placeholder((4, 1), "bool")
    back = g.placeholder((WORDS, 8), "bfloat16")
    y = g.matrix_multiplication(
        g.select(keep, g.matrix_multiplication(a, b), g.constant(filler, dtype="bfloat16")), back
    )
    shapes = {x: (x.dtype, x.shape) for x in (a, b, keep, back)}
    rng = np.random.default_rng(0)
    values = [jnp.asarray(rng.standard_normal(x.shape), jnp.bfloat16) for x in (a, b)]
    values += [
        jnp.asarray([[True], [False], [True], [True]]),
        jnp.asarray(rng.uniform(0.1, 1, back.shape), jnp.bfloat16),
    ]
    results = [
        Program(g, shapes, [y], tensor_cores=on).run({}, values, "highest", 10)[0][0].astype(jnp.float32)
        for on in (False, True)
    ]
    np.testing.assert_allclose(results[1], results[0], rtol=0.02, atol=0.5)
