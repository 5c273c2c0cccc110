"""Test mpsgraph.jax.jit: pytrees, static and donated arguments, the cache, errors, and libraries built on JAX."""

import doctest

import numpy as np
import pytest

# JAX is optional: `make test-jax` creates an environment with it.
jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import jax.numpy as jnp  # noqa: E402
import mpsgraph as mg  # noqa: E402
from harness import device  # noqa: E402

# Libraries of the JAX ecosystem raise warnings about each other.
pytestmark = [pytest.mark.both_devices, pytest.mark.filterwarnings("default")]


def assert_alike(function, *arguments, tolerance=1e-6, **options):
    found, expected = mg.jax.jit(function, **options)(*arguments), jax.jit(function, **options)(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(ours, jax.Array) and ours.dtype == theirs.dtype and ours.weak_type == theirs.weak_type
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=tolerance, atol=tolerance)


def test_jit_accepts_and_returns_pytrees():
    def function(tree, factor):
        return {"sum": tree["a"] + tree["b"][0], "all": (tree, [factor * 2, None]), "same": tree["a"]}

    tree = {"a": jnp.arange(3.0), "b": [np.float32(2), jnp.ones((2, 3), jnp.bfloat16)]}
    found = mg.jax.jit(function)(tree, 3)
    expected = jax.jit(function)(tree, 3)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b)), found, expected)
    assert found["all"][0]["b"][1].dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: x * 2, (3.0,)),
        (lambda x: x + 1, (3,)),
        (jax.grad(lambda x: x**2), (3.0,)),
        (lambda x: (x, x, 2.0, jnp.float32(1), x + jnp.float32(1)), (3.0,)),
        (lambda x: jax.lax.cond(x > 0, lambda y: y * 2, lambda y: -y, x), (3.0,)),
        (lambda x: jnp.broadcast_to(x, (20, 30)) * 1.5, (3.0,)),
    ],
)
def test_results_are_weakly_typed_as_in_jax(function, arguments):
    assert_alike(function, *arguments)
    for ours, theirs in zip(
        jax.tree.leaves(mg.jax.jit(function)(*arguments)), jax.tree.leaves(jax.jit(function)(*arguments)), strict=True
    ):
        assert (ours + jnp.bfloat16(1)).dtype == (theirs + jnp.bfloat16(1)).dtype


def test_weakly_typed_result_takes_bfloat16_of_other_operand():
    doubled = mg.jax.jit(lambda x: x * 2)(3.0)
    assert (doubled + jnp.bfloat16(1)).dtype == jnp.bfloat16
    assert mg.jax.jit(lambda x: x * jnp.ones(2, jnp.bfloat16))(doubled).tolist() == [6, 6]


def test_weak_results_do_not_depend_on_a_private_method_of_jax():
    from mpsgraph.jax import jitted

    class Plain:
        """An array without JAX's private method."""

        def __init__(self, array):
            self._array = array

        def __jax_array__(self):
            return self._array

    found = jitted._weak(Plain(jnp.float32(3)))
    assert found.weak_type and found == 3


def test_jax_transformations_inside_jit_match_jax():
    def loss(w, x):
        return jnp.sum(jax.nn.softplus(x @ w) ** 2)

    w, x = jnp.arange(6.0).reshape(3, 2) / 7, jnp.ones((4, 3)) / 3
    assert_alike(jax.value_and_grad(loss), w, x, tolerance=1e-5)
    assert_alike(jax.vmap(jax.grad(loss), in_axes=(None, 0)), w, x[:, None], tolerance=1e-5)
    assert_alike(jax.hessian(lambda v: loss(v.reshape(3, 2), x)), w.reshape(-1), tolerance=1e-4)
    assert_alike(jax.checkpoint(loss), w, x, tolerance=1e-5)
    assert_alike(jax.jit(loss), w, x, tolerance=1e-5)
    assert_alike(lambda w: jax.jvp(lambda w: loss(w, x), (w,), (jnp.ones_like(w),)), w, tolerance=1e-5)


def test_control_flow_matches_jax():
    assert_alike(lambda x: jax.lax.cond(x.sum() > 2, jnp.sin, jnp.cos, x), jnp.ones(3))
    assert_alike(lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), jnp.int32(7), jnp.ones(3))
    assert_alike(lambda x: jax.lax.while_loop(lambda v: v[0] < 5, lambda v: (v[0] + 1, v[1] * x), (0, x)), jnp.ones(2))
    assert_alike(lambda x: jax.lax.fori_loop(0, 4, lambda i, v: v + i * x, x), jnp.ones(2))
    assert_alike(lambda x: jax.lax.scan(lambda c, v: (c + v, c * v), jnp.float32(1), x, reverse=True), jnp.arange(5.0))
    assert_alike(lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, None, length=1), jnp.float32(3))
    assert_alike(lambda x: jax.lax.scan(lambda c, v: (c, v), jnp.float32(3), x), jnp.ones((0, 2)))
    graph = mg.jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda i, v: v * 2, x)).graph(jnp.ones(2))
    assert {"for", "while"} & {operation.kind for operation in graph.operations}


def test_gradients_of_loops_match_jax():
    def loss(w, x):
        def cell(h, now):
            h = jnp.tanh(now + h @ w)
            return h, h.sum()

        return jax.lax.scan(cell, jnp.zeros(3), x)[1].sum()

    assert_alike(jax.grad(loss), jnp.eye(3) / 2, jnp.arange(12.0).reshape(4, 3) / 12, tolerance=1e-5)


def test_jit_keeps_custom_derivatives():
    @jax.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
    assert_alike(jax.grad(lambda x: 10 * clipped(x).sum()), jnp.ones(3))
    np.testing.assert_array_equal(mg.jax.jit(jax.grad(lambda x: 10 * clipped(x).sum()))(jnp.ones(3)), np.ones(3))


def test_jit_random_numbers_are_bitwise_equal_to_jax():
    for key in (jax.random.key(3), jax.random.PRNGKey(3)):
        for function in (
            lambda k: jax.random.bits(k, (5, 7)),
            lambda k: jax.random.uniform(k, (6,)),
            lambda k: jax.random.permutation(k, 10),
            lambda k: jax.random.randint(k, (4,), 0, 100),
            lambda k: jax.random.bernoulli(k, 0.3, (9,)),
        ):
            np.testing.assert_array_equal(np.asarray(mg.jax.jit(function)(key)), np.asarray(jax.jit(function)(key)))
    assert_alike(lambda k: jax.random.normal(k, (20,)), jax.random.key(1), tolerance=1e-5)


def test_jit_accepts_and_returns_random_keys():
    found = mg.jax.jit(lambda k: (jax.random.split(k, 3), jax.random.fold_in(k, 7)))(jax.random.key(1))
    expected = jax.random.split(jax.random.key(1), 3), jax.random.fold_in(jax.random.key(1), 7)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


def test_jit_compiles_once_per_static_argument_value():
    def power(x, n, *, add=0):
        return x**n + add if n > 1 else x

    for options in ({"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": -1}):
        jitted = mg.jax.jit(power, **options)
        assert jitted(jnp.float32(3), 2).item() == 9 and jitted(jnp.float32(3), 1).item() == 3
        assert jitted.cache_size() == 2
        assert jitted(jnp.float32(4), 2).item() == 16 and jitted.cache_size() == 2
    assert mg.jax.jit(power, static_argnames=("n", "add"))(jnp.float32(3), n=2, add=1).item() == 10
    with pytest.raises(mg.GraphError, match="hashable"):
        mg.jax.jit(lambda x, n: x, static_argnums=1)(1.0, [2])


def test_jit_deletes_donated_arguments():
    step = mg.jax.jit(lambda state, x: jax.tree.map(lambda s: s + x, state), donate_argnums=0)
    state, x = {"a": jnp.ones(3), "b": jnp.zeros((2, 2))}, jnp.float32(1)
    new = step(state, x)
    assert state["a"].is_deleted() and state["b"].is_deleted() and not x.is_deleted()
    np.testing.assert_array_equal(step(new, x)["a"], [3, 3, 3])
    assert step.cache_size() == 1


def test_jit_caches_executables_by_structure_shape_and_dtype():
    jitted = mg.jax.jit(lambda x: x + 1)
    for value in (jnp.ones(3), np.ones(3, np.float32), jnp.ones(4), jnp.ones(3, jnp.int32), 1, 2, 2.5):
        jitted(value)
    assert jitted.cache_size() == 6  # numpy and JAX arrays count as two, as JAX arrays may be weakly typed.
    jitted(jnp.zeros(3)), jitted(7)
    assert jitted.cache_size() == 6
    jitted.clear_cache()
    assert jitted.cache_size() == 0


def test_jit_accepts_arrays_of_any_memory_layout():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    jitted = mg.jax.jit(lambda x: (x * 2, x.T))
    for view in (x.T, x[::2, ::-1], np.asfortranarray(x), x[:, 1]):
        np.testing.assert_array_equal(jitted(view)[0], view * 2)
        np.testing.assert_array_equal(jitted(view)[1], view.T)


@pytest.mark.skipif(device.IS_METAL, reason="device metal may or may not copy results to JAX's memory")
def test_jit_results_share_memory_with_jax():
    kept = mg.jax.jit(lambda x: x + 1)(jnp.zeros(1 << 16))
    again = mg.jax.jit(lambda x: x * 2)(kept)
    del kept
    assert float(again[0]) == 2 and float(again.sum()) == 2 * 65536


def test_jit_feeds_large_constants_and_folds_small_constants():
    large, small = jnp.arange(1 << 15, dtype=jnp.float32), np.float32([1, 2])
    jitted = mg.jax.jit(lambda x: (large * x[0], small + x))
    assert float(jitted(jnp.ones(2))[0][-1]) == 32767
    kinds = [operation.kind for operation in jitted.graph(jnp.ones(2)).operations]
    assert kinds.count("placeholder") == 2


def test_nested_jit_is_compiled_into_the_outer_program():
    inner = mg.jax.jit(lambda x: jnp.sin(x) ** 2)
    outer = mg.jax.jit(lambda x: inner(x) + jax.grad(lambda v: inner(v).sum())(x))
    x = jnp.arange(3.0)
    np.testing.assert_allclose(outer(x), np.sin(x) ** 2 + np.sin(2 * x), rtol=1e-5, atol=1e-6)
    assert inner.cache_size() == 0


def test_jax_transformations_applied_to_jit_function_raise():
    jitted = mg.jax.jit(lambda x: (x**2).sum())
    for outer in (jax.grad(jitted), jax.jit(jitted), jax.vmap(jitted)):
        with pytest.raises(mg.UnsupportedError, match="put the transformation inside"):
            outer(jnp.ones((2, 2)))
    assert jitted(jnp.ones(2)).item() == 2


def test_error_lists_all_unsupported_primitives():
    def function(x):
        jax.debug.print("x {}", x)
        t, z = jax.lax.linalg.schur(x)
        return jax.lax.cond(x[0, 0] > 0, lambda: jax.lax.linalg.hessenberg(t)[0], lambda: z)

    if device.IS_METAL:
        pytest.skip("the error does not depend on the device")
    with pytest.raises(mg.UnsupportedError, match="debug_print|debug_callback") as caught:
        mg.jax.jit(function)(jnp.eye(3))
    assert "schur" in str(caught.value) and "hessenberg" in str(caught.value)


def test_error_lists_all_unsupported_arguments():
    def function(x):
        some = jax.lax.linalg.svd(x, full_matrices=False, subset_by_index=(0, 1))
        return some, jax.lax.linalg.eigh(x, subset_by_index=(0, 1))

    with pytest.raises(mg.UnsupportedError) as caught:
        mg.jax.jit(function)(jnp.eye(3))
    assert "singular values" in str(caught.value) and "eigenvalues" in str(caught.value)


def test_unsupported_dtype_raises():
    with pytest.raises(mg.UnsupportedError, match="float8"):
        mg.jax.jit(lambda x: x)(jnp.ones(3, jnp.float8_e4m3fn))


def test_jit_of_a_non_callable_raises():
    with pytest.raises(mg.GraphError, match="must be callable"):
        mg.jax.jit(3)


def test_failing_jit_function_is_not_cached():
    jitted = mg.jax.jit(lambda x: x @ x)
    with pytest.raises(TypeError):
        jitted(jnp.ones((2, 3)))
    assert jitted.cache_size() == 0 and jitted(jnp.eye(2)).shape == (2, 2)


def test_jit_functions_can_return_nothing_or_their_inputs():
    assert mg.jax.jit(lambda x: None)(1.0) is None
    x = jnp.ones(3)
    one, two, three = mg.jax.jit(lambda x: (x, x, 5))(x)
    np.testing.assert_array_equal(one, two)
    assert int(three) == 5


def test_optax_and_equinox_programs_match_jax():
    equinox, optax = pytest.importorskip("equinox"), pytest.importorskip("optax")
    model = equinox.nn.MLP(4, 2, 8, 2, key=jax.random.key(0))
    parameters, rest = equinox.partition(model, equinox.is_array)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    x, y = jax.random.normal(jax.random.key(1), (16, 4)), jnp.ones((16, 2))

    def step(parameters, state):
        def loss(parameters):
            return jnp.mean((jax.vmap(equinox.combine(parameters, rest))(x) - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return value, optax.apply_updates(parameters, updates), state

    losses = {}
    for name, jit in (("ours", mg.jax.jit), ("theirs", jax.jit)):
        jitted, now, state = jit(step), parameters, optimizer.init(parameters)
        losses[name] = []
        for _ in range(5):
            value, now, state = jitted(now, state)
            losses[name].append(float(value))
    np.testing.assert_allclose(losses["ours"], losses["theirs"], rtol=1e-5)
    assert losses["ours"][-1] < losses["ours"][0]


def test_flax_programs_match_jax():
    linen = pytest.importorskip("flax.linen")
    optax = pytest.importorskip("optax")

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x, train):
            x = linen.relu(linen.BatchNorm(use_running_average=not train)(linen.Conv(8, (3, 3))(x)))
            x = linen.avg_pool(x, (2, 2), (2, 2))
            x = linen.Dropout(0.2, deterministic=not train)(x.reshape(x.shape[0], -1))
            return linen.LayerNorm()(linen.Dense(5)(x))

    network = Network()
    x, labels = jax.random.normal(jax.random.key(0), (8, 8, 8, 3)), jnp.arange(8) % 5
    variables = network.init(jax.random.key(1), x, False)
    optimizer = optax.sgd(0.1, 0.9)

    def step(parameters, statistics, state, key):
        def loss(parameters):
            logits, new = network.apply(
                {"params": parameters, "batch_stats": statistics}, x, True, rngs={"dropout": key}, mutable="batch_stats"
            )
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), new["batch_stats"]

        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
        updates, state = optimizer.update(gradients, state)
        return value, optax.apply_updates(parameters, updates), statistics, state

    losses = {}
    for name, jit in (("ours", mg.jax.jit), ("theirs", jax.jit)):
        jitted, now, statistics = jit(step), variables["params"], variables["batch_stats"]
        state, losses[name] = optimizer.init(now), []
        for number in range(4):
            value, now, statistics, state = jitted(now, statistics, state, jax.random.key(number))
            losses[name].append(float(value))
    np.testing.assert_allclose(losses["ours"], losses["theirs"], rtol=1e-4)


@pytest.mark.parametrize("module", ["jitted", "primitives._table"])
def test_docstring_examples_run(module: str):
    from importlib import import_module

    found = import_module(f"mpsgraph.jax.{module}")
    tests = [t for t in doctest.DocTestFinder().find(found, globs={"mg": mg, "np": np}) if t.examples]
    said: list[str] = []
    for test in tests:
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert tests and not said, "".join(said)
