"""Test branch specialization, which resolves an `if` on fed flags before compilation.

The results of `if` are covered by the cases, and its side effects and errors by core/test_control_flow.py. The tests
here check when a branch is resolved, that the program equals the one without `if`, and that every run uses the flag fed
to it, no matter how late the flag becomes available.
"""

import threading

import mpsgraph as mg
import numpy as np
import pytest

X = np.arange(4, dtype=np.float32)


def flag(value: bool) -> np.ndarray:
    return np.array([value])


class Choice:
    """y = x * w if a flag is set, else x + w, with an assign in the first branch, and the gradient of y with respect to
    w.
    """

    def __init__(self, predicate=lambda g, p: p):
        self.g = g = mg.Graph()
        self.p, self.x = g.placeholder((1,), mg.bool_), g.placeholder((4,))
        self.w, self.v = g.variable(np.full(4, 3.0, np.float32)), g.variable([0.0])

        def then():
            return g.control_dependency([g.assign(self.v, self.v + 1)], lambda: self.x * self.w)

        self.y = g.if_(predicate(g, self.p), then, lambda: self.x + self.w)[0]
        self.d = g.gradients(self.y, [self.w])[self.w]

    def run(self, value: bool) -> tuple[list, list]:
        found = self.g.run({self.p: flag(value), self.x: X}, [self.y, self.d])
        return found[self.y].tolist(), found[self.d].tolist()

    @property
    def compiles(self) -> int:
        return self.g.cache.compiles


def test_each_branch_compiles_on_first_use():
    c = Choice()
    assert c.compiles == 0
    for i, value in enumerate([True, True, False, True, False]):
        assert c.run(value) == (([0, 3, 6, 9], [0, 1, 2, 3]) if value else ([3, 4, 5, 6], [1, 1, 1, 1]))
        assert c.compiles == (1 if i < 2 else 2)
    assert c.g.variable_value(c.v).tolist() == [3], "only the first branch contains the assign"


def step(batch_norm: bool | str) -> tuple[mg.Graph, list[mg.Tensor], dict]:
    """Build one training step of a convolution and a batch normalization whose mode is a bool or a fed flag."""
    g = mg.Graph()
    x, labels = g.placeholder((8, 6, 6, 3)), g.placeholder((8, 4))
    w = g.variable(np.random.default_rng(0).standard_normal((3, 3, 3, 4)).astype(np.float32))
    mode = g.placeholder((1,), mg.bool_) if batch_norm == "flag" else batch_norm
    norm = mg.nn.BatchNorm().train(mode)
    logits = g.reshape(g.reduction_sum(g.relu(norm(g.convolution2d(x, w))), (1, 2)), (8, 4))
    loss = g.softmax_cross_entropy(logits, labels, reduction="mean")
    gradients = g.gradients(loss, [w, norm.gamma, norm.beta])
    updates = [g.assign(v, g.stochastic_gradient_descent(0.1, v, d)) for v, d in gradients.items()]
    rng = np.random.default_rng(1)
    feeds = {x: rng.random((8, 6, 6, 3), np.float32), labels: np.eye(4, dtype=np.float32)[rng.integers(0, 4, 8)]}
    return g, [loss, updates], feeds if isinstance(mode, bool) else feeds | {mode: flag(True)}


@pytest.mark.parametrize("training", [True, False])
def test_specialized_program_equals_program_without_branches(training):
    losses, kernels, arenas = {}, {}, {}
    for mode in ("flag", training):
        g, (loss, updates), feeds = step(mode)
        if mode == "flag":
            feeds[list(feeds)[-1]] = flag(training)
        executable = g.compile({t: a.shape for t, a in feeds.items()}, [loss], updates)
        losses[mode] = [executable.run([feeds[t] for t in executable.feeds])[0].item() for _ in range(3)]
        kernels[mode], arenas[mode] = executable.kernel_names(), executable.bytes
    assert losses["flag"] == losses[training], "losses must be bitwise equal"
    kinds = {mode: [name.rstrip("_0123456789") for name in names] for mode, names in kernels.items()}
    assert kinds["flag"] == kinds[training] and len(kinds[training]) > 5
    assert arenas["flag"] == arenas[training]


@pytest.mark.parametrize(
    "predicate",
    [lambda g, p: g.not_(p), lambda g, p: g.reshape(p, ()), lambda g, p: g.logical_and(p, g.constant(True))],
)
def test_predicates_computed_from_flags_are_specialized(predicate):
    c = Choice(predicate)
    sides = [c.run(value)[0] for value in (True, False, True, False)]
    assert sides[0] == sides[2] != sides[1] == sides[3]
    assert c.compiles == 2


def test_predicate_depending_on_non_flag_input_is_not_specialized():
    c = Choice(lambda g, p: g.logical_and(p, g.reduction_maximum(c_x(g), 0) > 1))
    assert [c.run(value)[0] for value in (True, False)] == [[0, 3, 6, 9], [3, 4, 5, 6]]
    assert c.compiles == 1


def c_x(g: mg.Graph) -> mg.Tensor:
    """Return the float placeholder of the graph."""
    return next(o.outputs[0] for o in g.operations if o.kind == "placeholder" and o.outputs[0].dtype == mg.float32)


@pytest.mark.parametrize("count, programs", [(3, 8), (4, 1)])
def test_branches_are_not_specialized_for_too_many_flags(count, programs):
    """Every flag doubles the number of programs."""
    g = mg.Graph()
    flags = [g.placeholder((1,), mg.bool_) for _ in range(count)]
    y = g.constant([0.0])
    for i, p in enumerate(flags):
        y = g.if_(p, lambda y=y, i=i: y + 2.0**i, lambda y=y: y)[0]
    for number in range(2**count):
        feeds = {p: flag(bool(number >> i & 1)) for i, p in enumerate(flags)}
        assert g.run(feeds, y).tolist() == [number]
    assert g.cache.compiles == programs


def test_if_inside_loop_is_specialized():
    g = mg.Graph()
    p, x = g.placeholder((), mg.bool_), g.placeholder(())
    y = g.for_(3, initial=[x], body=lambda i, s: g.if_(p, lambda: s * 2, lambda: s + 1)[0])[0]
    d = g.gradients(y, [x])[x]
    for value, expected in ((True, [16, 8]), (False, [5, 1])):
        found = g.run({p: np.array(value), x: np.float32(2)}, [y, d])
        assert [found[y].item(), found[d].item()] == expected


def test_flag_written_on_same_queue_is_read_after_the_write():
    c, g, queue = Choice(), mg.Graph(), mg.CommandQueue()
    source, runs = g.placeholder((1,)), []
    positive = source > 0
    for number in (1.0, -1.0, 2.0):
        value = np.empty(1, bool)
        g.run_async({source: np.float32([number])}, positive, results=value, queue=queue)
        runs.append((number, value, c.g.run_async({c.p: value, c.x: X}, c.y, queue=queue)))
    for number, _, run in runs:
        assert run.results.tolist() == ([0, 3, 6, 9] if number > 0 else [3, 4, 5, 6])


def test_concurrent_threads_can_run_different_branches():
    """Runs without side effects are concurrent, even while the other branch is being compiled."""
    g = mg.Graph()
    p, x = g.placeholder((1,), mg.bool_), g.placeholder((4,))
    w = g.variable(np.full(4, 3.0, np.float32))
    y = g.if_(p, lambda: x * w, lambda: x + w)[0]
    wrong = []

    def work(value: bool) -> None:
        for _ in range(50):
            found = g.run({p: flag(value), x: X}, y).tolist()
            if found != ([0, 3, 6, 9] if value else [3, 4, 5, 6]):
                wrong.append((value, found))

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and g.cache.compiles == 2


def test_specialized_executable_is_callable_from_another_graph():
    c, outer = Choice(), mg.Graph()
    callable_ = c.g.compile({c.p: (1,), c.x: (4,)}, [c.y])
    p, x = outer.placeholder((1,), mg.bool_), outer.placeholder((4,))
    y = outer.call("choice", [p, x], [((4,), "float32")])[0] * 2
    options = mg.CompilationDescriptor(callables={"choice": callable_})
    executable = outer.compile({p: (1,), x: (4,)}, [y], options=options)
    assert [executable.run([flag(v), X])[0].tolist() for v in (True, False)] == [[0, 6, 12, 18], [6, 8, 10, 12]]


def test_observe_callback_receives_passes_of_both_branches():
    c, seen = Choice(), {}
    options = mg.CompilationDescriptor(observe=seen.__setitem__)
    c.g.compile({c.p: (1,), c.x: (4,)}, [c.y], options=options)
    assert "if" in seen["fuse_elementwise"] and "multiplication" in seen["specialize"]
