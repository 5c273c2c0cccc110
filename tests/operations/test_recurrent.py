"""Test recurrent layers beyond their cases: PyTorch's results with equal weights, gradients, saved values, and errors.

The expected values come from PyTorch 2.13 in float64. Weights and inputs are sine waves, and the loss is the sum of the
results times 1, 2, 3, ....
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.instructions import SMALLER_SETS, is_the_processors
from harness.runtime import run_program

pytestmark = pytest.mark.both_devices

DTYPE, PRECISION = ("float64", 1e-7) if device.has("float64") else ("float32", 1e-5)
T, N, X, H = 3, 2, 2, 2
GOLDEN = {
    ("RNN", 1): {
        "y": [-0.51991762, -0.886671453, 0.710696492, -0.747928811, 0.117763577, 0.19512204, 0.77126642, 0.863259003,
              0.688091294, -0.246964626, 0.931303532, -0.633344383],
        "dx": [2.140608139, 7.531250752, 2.741837997, 4.322352219, 7.63788008, 13.431637666, 1.887464769, 4.130949615,
               7.402765173, 8.926728557, 5.665546571, 5.714905126],
        "d_recurrent": [-10.973916743, -18.182619867, 0.679956665, -2.584930844],
        "d_initial": [8.855292458, 8.797052336, 4.388059351, 3.072171897],
        "d_bias": [38.787357477, 34.852237883],
    },
    ("LSTM", 1): {
        "y": [-0.293084652, -0.124712762, -0.101483859, 0.061187323, -0.469896937, -0.050920231, -0.493910136,
              0.19070352, -0.41221849, -0.262724056, -0.233926691, -0.024321418],
        "dx": [-1.364316613, -1.079474066, -2.623361107, -1.520407478, 1.663623815, 3.449357365, 3.211347384,
               4.896013775, -1.746147223, -0.416068192, -3.334621576, -1.957110431],
        "d_recurrent": [1.429706182, 0.179437548, 2.285301784, -0.000484221, 0.882810833, 0.342536049, -0.604621451,
                        0.600826639, -1.389924131, 0.994126108, -2.844759479, 0.122133018, 2.150087307, 0.006266512,
                        0.148385855, 0.11172187],
        "d_initial": [-0.784149502, 0.120388495, -0.782534493, 1.08619753],
        "d_bias": [-3.613265023, -4.205273079, -1.588651513, 2.046128733, 4.992420068, 13.544580425, -5.212737586,
                   0.203239431],
    },
    ("LSTM", 2): {
        "y": [-0.293084652, -0.124712762, 0.08321752, -0.053537968, -0.101483859, 0.061187323, 0.073571244,
              -0.049869662, -0.469896937, -0.050920231, 0.042630557, -0.263611, -0.493910136, 0.19070352, 0.003776811,
              -0.309581036, -0.41221849, -0.262724056, 0.114781912, -0.115592049, -0.233926691, -0.024321418,
              0.024015681, -0.031833659],
        "dx": [-2.54602463, -1.984158149, -5.470210654, -3.372414053, 1.064308738, 3.890542338, 3.84093021, 6.123260463,
               -5.754602406, -3.09529926, -12.377889087, -10.601469489],
        "d_recurrent": [2.567364652, 0.260872515, 3.90336506, -0.117642641, 1.611031491, 0.576592211, -1.045061548,
                        1.043190826, -2.562055673, 1.809001354, -5.006802598, 0.223995949, 3.904915039, -0.083776251,
                        0.259548765, 0.187236441, -0.670890285, -1.02937882, -0.445346349, -0.352856025, 0.138333411,
                        0.432244994, -0.243634264, 0.38872515, 3.464367096, 0.745323709, 3.906332935, 1.144520759,
                        1.125328223, 0.619878895, -1.770017665, -0.608129656],
        "d_initial": [-1.221072127, 0.179050345, -1.295211881, 1.930439265, -1.857550198, -0.278795703, -6.29810667,
                      -2.724927009],
    },
    ("GRU", 1): {
        "y": [-0.768106473, -0.742402075, -0.405222709, -0.393156015, -0.834581242, -0.451507079, -0.720757584,
              0.017061959, -0.837456084, -0.658634959, -0.639529807, -0.401898192],
        "dx": [-1.040826699, -0.197818386, -4.575222537, -0.635436096, 2.549494466, 4.809180198, 6.629936017,
               10.010333616, -0.411664189, 0.658453975, -3.982465374, -1.771336297],
        "d_recurrent": [1.291851463, 0.521531505, 1.86747651, 1.712786605, -0.478254571, -0.293845602, -2.649012927,
                        1.302975288, -3.974459644, 1.148024169, -7.183409247, -6.293546714],
        "d_initial": [3.43939068, 3.629717795, 2.247977841, 6.08110238],
        "d_bias": [-1.91410829, -2.798604141, 1.788011461, 5.49367118, 10.167386061, 14.014949908],
    },
    ("GRU", 2): {
        "y": [-0.768106473, -0.742402075, 0.585837134, 0.042448853, -0.405222709, -0.393156015, 0.407538333,
              -0.056852348, -0.834581242, -0.451507079, 0.634208369, 0.100184948, -0.720757584, 0.017061959,
              0.406106077, -0.098516416, -0.837456084, -0.658634959, 0.6911399, 0.332554306, -0.639529807,
              -0.401898192, 0.452136575, 0.020728397],
        "dx": [-2.694137996, -1.345567066, -10.619071146, -3.785111596, 6.153553388, 9.125199127, 13.475974405,
               18.490778605, 2.043762655, 1.131936739, -24.032498346, -20.6739358],
        "d_recurrent": [2.374639532, 0.936937729, 3.264817239, 2.983095152, -0.895968204, -0.58958585, -4.711817091,
                        2.251005224, -7.347389337, 2.029194005, -12.676745875, -11.125075958, -1.427555453,
                        -0.757780691, -1.819680886, -0.351710906, 1.579050038, 1.879530937, 7.857222721, 8.16218042,
                        4.441054337, 0.03799991, 11.865828322, 2.014117351],
        "d_initial": [5.874921713, 5.450059276, 4.186705494, 10.527699698, 28.888508208, 18.643061425, 15.413361625,
                      19.669097501],
    },
}  # fmt: skip
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def wave(*shape: int, start: float) -> np.ndarray:
    return np.sin(np.arange(np.prod(shape)) * 0.7 + start).reshape(shape) * 0.8


@pytest.mark.parametrize(("kind", "directions"), GOLDEN)
def test_recurrent_results_match_pytorch_with_the_same_weights(kind: str, directions: int):
    """PyTorch's weights are used as they are. Its two biases are added, except the one that GRU adds before
    the reset gate.
    """
    rows = GATES[kind] * H
    weights = [
        [wave(rows, X, start=k), wave(rows, H, start=k + 1), wave(rows, start=k + 2), wave(rows, start=k + 3)]
        for k in range(0, 4 * directions, 4)
    ]
    before, after = (np.concatenate([w[k] for w in weights]).reshape(directions, rows) for k in (2, 3))
    second = after[:, 2 * H :].copy()
    if kind == "GRU":
        after[:, 2 * H :] = 0
    arrays = {
        "source": wave(T, N, X, start=10),
        "recurrent_weight": np.stack([w[1] for w in weights]) if directions == 2 else weights[0][1],
        "input_weight": np.concatenate([w[0] for w in weights]),
        "bias": (before + after).ravel(),
        "initial_state": wave(directions, N, H, start=11).transpose(1, 0, 2).reshape(N, -1),
    }
    how = {"bidirectional": directions == 2}
    if kind == "RNN":
        how["activation"] = "tanh"
    elif kind == "LSTM":
        arrays["initial_cell"] = wave(directions, N, H, start=12).transpose(1, 0, 2).reshape(N, -1)
    else:
        arrays["secondary_bias"] = second.ravel()
        how |= {"reset_gate_first": True, "reset_after": True}
    g = mg.Graph()
    arrays = {name: a.astype(DTYPE) for name, a in arrays.items()}
    tensors = {name: g.placeholder(a.shape, DTYPE) for name, a in arrays.items()}
    method = {"RNN": g.single_gate_rnn, "LSTM": g.lstm, "GRU": g.gru}[kind]
    y = method(**tensors, **how)[0]
    factors = np.arange(1.0, y.shape[0] * y.shape[1] * y.shape[2] + 1).reshape(y.shape)
    d = g.gradients(g.reduction_sum(y * g.constant(factors, dtype=DTYPE)), list(tensors.values()))
    wanted = GOLDEN[kind, directions]
    targets = {"y": y, "dx": d[tensors["source"]], "d_recurrent": d[tensors["recurrent_weight"]]}
    targets["d_initial"] = d[tensors["initial_state"]]
    if "d_bias" in wanted and kind != "GRU":
        targets["d_bias"] = d[tensors["bias"]]
    found = g.run(dict(zip(tensors.values(), arrays.values(), strict=True)), list(targets.values()))
    for name, target in targets.items():
        got = found[target].numpy()
        if name == "d_initial":  # in PyTorch, directions come first
            got = got.reshape(N, directions, H).transpose(1, 0, 2)
        np.testing.assert_allclose(got.ravel(), wanted[name], rtol=PRECISION, atol=0.1 * PRECISION, err_msg=name)
    if kind == "GRU" and directions == 1:
        first, last = d[tensors["bias"]], d[tensors["secondary_bias"]]
        found = g.run(dict(zip(tensors.values(), arrays.values(), strict=True)), [first, last])
        biases = [*found[first].tolist()[: 2 * H], *found[last].tolist()]
        np.testing.assert_allclose(biases, wanted["d_bias"], rtol=PRECISION)


def lstm(g: mg.Graph, steps: int = -1, **how):
    """Return the results of an LSTM, and its operands by name."""
    shapes = {"source": (steps, -1, 3), "recurrent_weight": (8, 2), "input_weight": (8, 3), "bias": (8,)}
    tensors = {name: g.placeholder(shape, name=name) for name, shape in shapes.items()}
    return g.lstm(**tensors, **how), tensors


def feeds_of(tensors: dict[str, mg.Tensor], steps: int, batch: int) -> dict:
    sizes = {"source": (steps, batch, 3), "recurrent_weight": (8, 2), "input_weight": (8, 3), "bias": (8,)}
    return {tensors[k]: wave(*s, start=i).astype(np.float32) for i, (k, s) in enumerate(sizes.items())}


def test_lstm_gradient_equals_explicit_gradient_operation():
    g = mg.Graph()
    (h, c, gates), tensors = lstm(g, training=True)
    derived = g.gradients(h, list(tensors.values()))
    one = g.broadcast_to(g.constant(1.0), g.shape_of(h))
    source, recurrent, weight, bias = tensors.values()
    direct = g.lstm_gradients(source, recurrent, one, gates, c, weight, bias)
    assert [d.operation.kind for d in derived.values()] == ["lstm_gradients"] * 4
    feeds = feeds_of(tensors, 5, 3)
    found = g.run(feeds, [*derived.values(), *direct])
    for a, b in zip(derived.values(), direct, strict=True):
        np.testing.assert_array_equal(found[a].numpy(), found[b].numpy())


@pytest.mark.parametrize("how", [{}, {"training": True}, {"training": True, "produce_cell": True}], ids=str)
def test_recurrent_training_state_is_computed_only_if_needed(how: dict):
    g = mg.Graph()
    (h, *more), tensors = lstm(g, **how)
    d = g.gradients(h, [tensors["bias"]])[tensors["bias"]]
    feeds = feeds_of(tensors, 4, 2)

    def program(targets: list[mg.Tensor]) -> str:
        seen: dict[str, str] = {}
        types = {t: a.shape for t, a in feeds.items()}
        g.compile(types, targets, options=mg.CompilationDescriptor(observe=seen.__setitem__))
        return list(seen.values())[-1]

    assert "gives_training_state" not in program([h]) and "gives_cell" not in program([h])
    assert "gives_training_state=true" in program([h, d])
    for cell in more[:1]:
        assert "gives_training_state" not in program([cell, h]) and "gives_cell=true" in program([cell, h])
        np.testing.assert_array_equal(g.run(feeds, cell).numpy(), g.run(feeds, [cell, d])[cell].numpy())
    for state in more[1:]:
        assert "gives_training_state=true" in program([state])
    np.testing.assert_array_equal(g.run(feeds, h).numpy(), g.run(feeds, [h, d])[h].numpy())


def test_recurrent_graph_processes_sequences_of_any_length():
    g = mg.Graph()
    (h,), tensors = lstm(g)
    d = g.gradients(h, [tensors["recurrent_weight"]])[tensors["recurrent_weight"]]
    for steps, batch in ((1, 1), (7, 2), (300, 3)):
        feeds = feeds_of(tensors, steps, batch)
        found = g.run(feeds, [h, d])
        assert found[h].shape == (steps, batch, 2) and np.isfinite(found[d].numpy()).all()


def test_recurrent_second_derivative_requires_static_step_count():
    g = mg.Graph()
    (h,), tensors = lstm(g)
    x = tensors["source"]
    first = g.gradients(h, [x])[x]
    with pytest.raises(mg.UnsupportedError, match="time steps"):
        g.gradients(first, [x])
    (h,), tensors = lstm(g, 3)
    x = tensors["source"]
    second = g.gradients(g.gradients(h, [x])[x], [x])[x]
    assert g.run(feeds_of(tensors, 3, 2), second).shape == (3, 2, 3)


@pytest.mark.skipif(not device.has("float64"), reason="finite differences require float64")
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3), ("single_gate_rnn", 1)])
def test_second_derivative_of_recurrent_bias_matches_finite_differences(kind: str, gates: int, directions: int):
    g, rng, wide = mg.Graph(), np.random.default_rng(0), directions * gates * H
    shapes = (gates * H, H) if directions == 1 else (2, gates * H, H), (wide, X), (wide,), (wide,)
    recurrent, weight, bias, factors = (g.constant(rng.normal(size=shape), dtype="float64") for shape in shapes)
    how = {"bidirectional": directions == 2} | ({"activation": "tanh"} if kind == "single_gate_rnn" else {})
    x = g.placeholder((T, N, X), "float64")
    y = getattr(g, kind)(x, recurrent, weight, bias=bias, **how)[0]
    d_bias = g.gradients(g.reduction_sum(y * y), [bias])[bias]
    total = g.reduction_sum(d_bias * factors)
    fed, step = rng.normal(size=(T, N, X)), 1e-5
    found = g.run({x: fed}, g.gradients(total, [x])[x]).numpy()
    for place in np.ndindex(fed.shape):
        moved = [fed.copy(), fed.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (float(g.run({x: values}, total)) for values in moved)
        assert abs(found[place] - (up - down) / (2 * step)) < 1e-7


def test_invalid_recurrent_operands_raise():
    g = mg.Graph()
    x, r, w = g.placeholder((5, 2, 3)), g.placeholder((8, 2)), g.placeholder((8, 3))
    with pytest.raises(mg.ShapeError, match=r"\[lstm\].*recurrent_weight must have shape \(8,2\)"):
        g.lstm(x, g.placeholder((6, 2)), w)
    with pytest.raises(mg.ShapeError, match=r"\[lstm\].*input_weight"):
        g.lstm(x, r, g.placeholder((8, 4)))
    with pytest.raises(mg.ShapeError, match=r"\[lstm\].*source"):
        g.lstm(x, r)
    with pytest.raises(mg.ShapeError, match=r"\[lstm\].*recurrent_weight.*2 directions"):
        g.lstm(x, r, w, bidirectional=True)
    with pytest.raises(mg.ShapeError, match=r"\[lstm\].*mask"):
        g.lstm(x, r, w, mask=g.placeholder((5, 2, 3)))
    with pytest.raises(mg.GraphError, match=r"\[lstm\].*hard_sigmoid"):
        g.lstm(x, r, w, activation="softplus")
    with pytest.raises(mg.GraphError, match=r"\[gru\].*reset_after"):
        g.gru(x, g.placeholder((6, 2)), g.placeholder((6, 3)), secondary_bias=g.placeholder((2,)))
    with pytest.raises(mg.DTypeError, match=r"\[gru\].*float32"):
        g.gru(g.cast(x, "int32"), g.placeholder((6, 2)), g.placeholder((6, 3)))
    with pytest.raises(mg.DTypeError, match=r"\[single_gate_rnn\].*cast"):
        g.single_gate_rnn(x, g.placeholder((3, 3), mg.float64))
    assert g.lstm(x, r, w)[0].shape == (5, 2, 2)


def test_recurrent_results_do_not_depend_on_thread_count():
    program = """
        import hashlib, numpy as np, mpsgraph as mg
        rng, digest = np.random.default_rng(0), hashlib.sha256()
        for batch, hidden in ((40, 33), (1, 300), (3, 20)):
            g = mg.Graph()
            for kind, gates in (("lstm", 4), ("gru", 3)):
                arrays = [rng.normal(size=s).astype(np.float32) * 0.2
                          for s in ((6, batch, gates * hidden), (gates * hidden, hidden))]
                x, r = (g.constant(a) for a in arrays)
                y = getattr(g, kind)(x, r)[0]
                d = g.gradients(y, [x])[x]
                for value in g.run({}, [y, d]).values():
                    digest.update(value.numpy().tobytes())
        print(digest.hexdigest())
    """
    runs = [run_program(program, OMP_NUM_THREADS=threads) for threads in ("1", "2")]
    assert all(r.returncode == 0 for r in runs), runs[0].stderr + runs[1].stderr
    assert runs[0].stdout == runs[1].stdout


def test_recurrent_bias_gradient_equals_summed_input_gradient():
    """Split rows or units between threads, with default and other activations and with one direction and two."""
    program = """
        import numpy as np, mpsgraph as mg
        rng = np.random.default_rng(0)
        for batch, hidden in ((64, 33), (150, 20), (1, 300), (3, 20)):
            for kind, gates, how in (("lstm", 4, {}), ("lstm", 4, {"bidirectional": True}), ("gru", 3, {}),
                                     ("lstm", 4, {"activation": "relu"}), ("single_gate_rnn", 1, {})):
                g, directions = mg.Graph(), 1 + ("bidirectional" in how)
                wide = directions * gates * hidden
                recurrent = (gates * hidden, hidden) if directions == 1 else (2, gates * hidden, hidden)
                shapes = (6, batch, 7), recurrent, (wide, 7), (wide,)
                x, r, w, bias = (g.constant(rng.normal(size=s).astype(np.float32) * 0.2) for s in shapes)
                y, *_ = getattr(g, kind)(x, r, w, bias=bias, **how)
                source = g.constant(np.zeros((6, batch, wide), np.float32))
                z, *_ = getattr(g, kind)(source + (x @ g.transpose(w, (1, 0)) + bias), r, **how)
                found = g.run({}, [g.gradients(y, [bias])[bias], g.gradients(z, [source])[source]])
                got, terms = (value.numpy() for value in found.values())
                wanted, size = terms.sum((0, 1), dtype=np.float64), np.abs(terms).sum((0, 1))
                assert (np.abs(got - wanted) <= 1e-5 * size).all(), (kind, how, batch, hidden)
                assert np.abs(wanted).max() > 1
    """
    for threads in ("1", "2", "3"):
        made = run_program(program, OMP_NUM_THREADS=threads)
        assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("batch, hidden", [(9, 20), (3, 5)])
def test_recurrent_training_state_survives_in_place_gradients(batch: int, hidden: int):
    """Gradients may overwrite the training state, but not if it is also a target."""
    g, rng = mg.Graph(), np.random.default_rng(0)
    x, r, w = (g.constant(rng.normal(size=shape).astype(np.float32) * 0.3)
               for shape in ((30, batch, 5), (4 * hidden, hidden), (4 * hidden, 5)))  # fmt: skip
    state, cell, gates = g.lstm(x, r, w, training=True, produce_cell=True)
    gradients = g.lstm_gradients(x, r, g.constant(1.0, (30, batch, hidden)), gates, cell, input_weight=w)
    alone = g.run({}, [gates])[gates].numpy()
    found = g.run({}, [gates, *gradients])
    np.testing.assert_array_equal(found[gates].numpy(), alone)
    again = g.run({}, list(gradients))
    for gradient in gradients:
        np.testing.assert_array_equal(found[gradient].numpy(), again[gradient].numpy())


@pytest.mark.skipif(not device.has("float64"), reason="compared with float64")
@pytest.mark.parametrize("instructions", [None, *SMALLER_SETS])
def test_recurrent_layers_of_any_width_match_float64(instructions: str | None):
    """Units and inputs fill whole vectors or not, with packed and unpacked weights; float64 is computed
    without vectors.
    """
    if instructions and is_the_processors(instructions):
        pytest.skip(f"the default already is {instructions}")
    program = """
        import numpy as np, mpsgraph as mg
        rng = np.random.default_rng(0)
        def found(arrays, dtype, kind, multiplied):
            g = mg.Graph()
            source, recurrent, weight, bias = (g.constant(a, dtype=dtype) for a in arrays)
            given = [recurrent, weight, bias] if multiplied else [recurrent]
            if not multiplied:
                source = source @ g.transpose(weight, (1, 0)) + bias
                y = getattr(g, kind)(source, recurrent)[0]
            else:
                y = getattr(g, kind)(source, recurrent, weight, bias=bias)[0]
            given.append(source)
            gradients = g.gradients(g.reduction_sum(y * y), given)
            return [value.numpy() for value in g.run({}, [y, *(gradients[t] for t in given)]).values()]
        for steps, batch in ((9, 23), (1, 3), (2, 120), (6, 1)):
            for hidden, inputs in ((1, 5), (3, 16), (7, 33), (8, 1), (9, 4), (20, 17), (24, 8), (26, 3), (40, 32)):
                for kind, gates in (("lstm", 4), ("gru", 3), ("single_gate_rnn", 1)):
                    rows = gates * hidden
                    shapes = (steps, batch, inputs), (rows, hidden), (rows, inputs), (rows,)
                    arrays = [rng.normal(size=s).astype(np.float32) * 0.3 for s in shapes]
                    for multiplied in (True, False):
                        pairs = zip(*(found(arrays, dtype, kind, multiplied) for dtype in ("float32", "float64")))
                        for got, wanted in pairs:
                            error, size = (np.abs(x).max() for x in (got - wanted, wanted))
                            assert error <= 1e-5 * size, (kind, steps, batch, hidden, inputs, multiplied, error / size)
                            # Recurrent weights that meet a state of zeros; a single unit that is always off.
                            assert size > 1e-3 or steps == 1 or (batch, hidden) == (1, 1)
    """
    made = run_program(program, **({"MPSGRAPH_INSTRUCTION_SET": instructions} if instructions else {}))
    assert made.returncode == 0, made.stderr
