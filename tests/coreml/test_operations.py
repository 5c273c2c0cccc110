"""Compare MIL's operations with the values that coremltools infers for them, or with PyTorch and numpy.

Each operation is built twice: on constants, whose result coremltools computes while building, and on inputs, as a
program that mpsgraph loads.
"""

import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-coreml")
import mpsgraph as mg  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.mil import Function, types  # noqa: E402
from harness.mil_programs import results_here, results_of  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # coremltools and PyTorch warn about each other's versions.
RNG = np.random.default_rng(6)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


A, B, P, I = numbers(2, 3, 4), numbers(3, 1), np.abs(numbers(2, 3, 4)) + 0.1, np.int32([[2, 0], [1, -1]])  # noqa: E741
U, X = RNG.uniform(-0.9, 0.9, (2, 3, 4)).astype(np.float32), numbers(1, 4, 6, 5)

TURNED = F.affine_grid(torch.tensor([[[0.8, 0.1, 0.2], [-0.1, 0.9, 0.0]]]), (1, 4, 4, 3), align_corners=True)


def inferred(make, inputs, target):
    """Return the values that coremltools computes for constants."""
    with Function({"unused": mb.placeholder((1,), types.fp32)}, opset_version=getattr(ct.target, target)):
        # Some operations write into the array.
        made = make(**{name: mb.const(val=value.copy()) for name, value in inputs.items()})
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    return [None if v.val is None else np.asarray(v.val) for v in made]


def case(make, expected=None, target="iOS16", **inputs):
    return make, expected, target, inputs or {"x": A}


CASES = {
    # --- element-wise
    **{name: case(lambda x, op=name: getattr(mb, op)(x=x)) for name in
       ("abs", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "round", "sigmoid", "sign", "sin", "sinh",
        "square", "tan", "tanh", "relu", "softsign", "softplus", "relu6")},
    **{name: case(lambda x, op=name: getattr(mb, op)(x=x), x=U) for name in ("acos", "asin", "atanh")},
    **{name: case(lambda x, op=name: getattr(mb, op)(x=x), x=P) for name in ("sqrt", "rsqrt", "log", "inverse")},
    **{name: case(lambda x, y, op=name: getattr(mb, op)(x=x, y=y), x=A, y=B) for name in
       ("add", "sub", "mul", "real_div", "maximum", "minimum", "floor_div", "mod", "equal", "not_equal", "less",
        "less_equal", "greater", "greater_equal")},
    "pow": case(lambda x, y: mb.pow(x=x, y=y), x=P, y=B),
    "integers": case(lambda x, y: mb.mod(x=mb.floor_div(x=x, y=y), y=np.int32(3)), x=np.int32([7, -7, 5]),
                     y=np.int32([2, 2, -3])),
    "silu": case(lambda x: mb.silu(x=x), [A / (1 + np.exp(-A))]),
    "clip": case(lambda x: mb.clip(x=x, alpha=-0.3, beta=0.4)),
    "threshold": case(lambda x: mb.threshold(x=x, alpha=0.2)),
    "elu": case(lambda x: mb.elu(x=x, alpha=0.7)),
    "leaky_relu": case(lambda x: mb.leaky_relu(x=x, alpha=0.3)),
    "scaled_tanh": case(lambda x: mb.scaled_tanh(x=x, alpha=1.2, beta=0.6)),
    "sigmoid_hard": case(lambda x: mb.sigmoid_hard(x=x, alpha=0.3, beta=0.4)),
    "clamped_relu": case(lambda x: mb.clamped_relu(x=x, alpha=0.3, beta=0.6)),
    "thresholded_relu": case(lambda x: mb.thresholded_relu(x=x, alpha=0.3)),
    "linear_activation": case(lambda x: mb.linear_activation(x=x, alpha=0.3, beta=0.6)),
    "softplus_parametric": case(lambda x: mb.softplus_parametric(x=x, alpha=P[0, :, 0], beta=P[1, :, 0])),
    **{f"gelu {mode}": case(lambda x, m=mode: mb.gelu(x=x, mode=m)) for mode in
       ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")},
    "select": case(lambda x, y: mb.select(cond=mb.greater(x=x, y=np.float32(0)), a=x, b=y), x=A, y=A * 2),
    "logic": case(lambda x, y: mb.logical_xor(x=mb.logical_not(x=mb.greater(x=x, y=y)),
                                              y=mb.less(x=x, y=np.float32(1))), x=A, y=B),
    "cast": case(lambda x: mb.cast(x=mb.cast(x=x, dtype="int32"), dtype="fp32"), x=A * 3),
    "softmax": case(lambda x: mb.softmax(x=x, axis=1)),
    # --- reductions and sorting
    **{name: case(lambda x, op=name: getattr(mb, op)(x=x, axes=[0, -1], keep_dims=False), x=P) for name in
       ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum_square", "reduce_l1_norm",
        "reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp")},
    "reduce all": case(lambda x: mb.reduce_mean(x=x, keep_dims=True)),
    "reduce_argmax": case(lambda x: mb.reduce_argmax(x=x, axis=1, keep_dims=False)),
    "reduce_argmin": case(lambda x: mb.reduce_argmin(x=x, axis=-1, keep_dims=True)),
    "cumsum": case(lambda x: mb.cumsum(x=x, axis=1, exclusive=True, reverse=True), [
        np.cumsum(A[:, ::-1], 1)[:, ::-1] - A]),
    "topk": case(lambda x: mb.topk(x=x, k=2, axis=1, ascending=False), [
        -np.sort(-A, 1)[:, :2], np.argsort(-A, 1)[:, :2]], "iOS15"),
    "topk of all, falling": case(lambda x: mb.topk(x=x, k=4, axis=-1, ascending=True)[0], [np.sort(A, -1)]),
    "argsort": case(lambda x: mb.argsort(x=x, axis=1, ascending=True), [np.argsort(A, 1)]),
    # --- shapes
    "reshape": case(lambda x: mb.reshape(x=x, shape=[0, -1, 2]), [A.reshape(2, 6, 2)]),
    "reshape_like": case(lambda x, y: mb.reshape_like(x=x, ref_tensors=(y, y), begins=(0, 1), ends=(1, 2),
                                                      end_masks=(False, True)), [A.reshape(4, 6)], x=A,
                         y=numbers(4, 6)),
    "transpose": case(lambda x: mb.transpose(x=x, perm=[2, 0, 1])),
    "expand and squeeze": case(lambda x: mb.squeeze(x=mb.expand_dims(x=x, axes=[0, -1]), axes=[-1])),
    "flatten2d": case(lambda x: mb.flatten2d(x=x, axis=2)),
    "concat": case(lambda x, y: mb.concat(values=[x, y], axis=1), x=A, y=A[:, :2]),
    "interleaved": case(lambda x, y: mb.concat(values=[x, y], axis=1, interleave=True), [
        np.stack([A, A * 2], 2).reshape(2, 6, 4)], x=A, y=A * 2),
    "stack": case(lambda x, y: mb.stack(values=[x, y], axis=-1), [np.stack([A, A * 2], -1)], x=A, y=A * 2),
    "split": case(lambda x: mb.split(x=x, split_sizes=[1, 3], axis=2)),
    "tile": case(lambda x: mb.tile(x=x, reps=[2, 1, 3])),
    "fill": case(lambda x: mb.add(x=x, y=mb.fill(shape=[2, 3, 4], value=1.5))),
    "fill_like": case(lambda x: mb.fill_like(ref_tensor=x, value=2.5), [np.full_like(A, 2.5)]),
    "range": case(lambda x: mb.add(x=x, y=mb.range_1d(start=np.float32(1), end=np.float32(3), step=np.float32(0.5)))),
    "shape": case(lambda x: mb.shape(x=x)),
    "pad": case(lambda x: mb.pad(x=x, pad=[1, 0, 2, 1], mode="constant", constant_val=0.5)),
    "pad, reflected": case(lambda x: mb.pad(x=x, pad=[1, 2, 2, 1], mode="reflect")),
    "pad, repeated": case(lambda x: mb.pad(x=x, pad=[1, 0, 2, 1], mode="replicate")),
    "band_part": case(lambda x: mb.band_part(x=x, lower=1, upper=0)),
    "depth_to_space": case(lambda x: mb.depth_to_space(x=x, block_size=2), [
        X.reshape(1, 2, 2, 1, 6, 5).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 12, 10)], x=X),
    "space_to_depth": case(lambda x: mb.space_to_depth(x=x, block_size=2), [
        X[..., :4].reshape(1, 4, 3, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 3, 2)], x=X[..., :4]),
    "pixel_shuffle": case(lambda x: mb.pixel_shuffle(x=x, upscale_factor=2), [
        F.pixel_shuffle(torch.from_numpy(X), 2).numpy()], x=X),
    "pixel_unshuffle": case(lambda x: mb.pixel_unshuffle(x=x, downscale_factor=np.uint32(2)), [
        F.pixel_unshuffle(torch.from_numpy(X[..., :4]), 2).numpy()], x=X[..., :4]),
    "space_to_batch and back": case(lambda x: mb.batch_to_space(
        x=mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[0, 0], [1, 0]]), block_shape=[2, 3],
        crops=[[0, 0], [1, 0]]), [X], x=X),
    "sliding_windows": case(lambda x: mb.sliding_windows(x=x, axis=2, size=2, stride=2), [
        np.stack([A[..., 0:2], A[..., 2:4]], 2)]),
    # --- slices
    "slice_by_index": case(lambda x: mb.slice_by_index(x=x, begin=[0, -1, 3], end=[2, 0, 0], stride=[1, -1, -2],
                                                       end_mask=[False, True, True]), [A[:, ::-1, 3::-2]]),
    "slice and squeeze": case(lambda x: mb.slice_by_index(x=x, begin=[-1, 0, 1], end=[0, 2, 3],
                                                          squeeze_mask=[True, False, False]), [A[-1, 0:2, 1:3]]),
    "slice_by_size": case(lambda x: mb.slice_by_size(x=x, begin=[0, 1, 1], size=[2, -1, 2]), [A[:, 1:, 1:3]]),
    "slice_by_size, computed": case(lambda x, y: mb.slice_by_size(x=x, begin=y, size=[1, 2, 2]), [A[1:, 1:, 2:4]], x=A,
                                    y=np.int32([1, 1, 2])),
    "slice_update": case(lambda x, y: mb.slice_update(x=x, update=y, begin=[0, 1, 0], end=[2, 2, 4]), [
        np.concatenate([A[:, :1], A[:, :1] * 2, A[:, 2:]], 1)], "iOS18", x=A, y=A[:, :1] * 2),
    "reverse": case(lambda x: mb.reverse(x=x, axes=[0, 2])),
    "reverse_sequence": case(lambda x: mb.reverse_sequence(x=x, lengths=[2, 3], seq_axis=1, batch_axis=0), [
        np.stack([A[0, [1, 0, 2]], A[1, ::-1]])]),
    # --- lookups
    "gather": case(lambda x, i: mb.gather(x=x, indices=i, axis=1), [A[:, I]], x=A, i=I),
    "gather, a batch": case(lambda x, i: mb.gather(x=x, indices=i, axis=1, batch_dims=1), [
        np.stack([A[0, I[0]], A[1, I[1]]])], x=A, i=I),
    "gather_along_axis": case(lambda x, i: mb.gather_along_axis(x=x, indices=i, axis=0), [
        np.take_along_axis(A[0], np.int32([[0, 2, 1, 1]]), 0)], x=A[0], i=np.int32([[0, 2, 1, 1]])),
    "gather_nd": case(lambda x, i: mb.gather_nd(x=x, indices=i), [A[[1, 0], [2, 1]]], x=A,
                      i=np.int32([[1, 2], [0, -2]])),
    "scatter": case(lambda x, y: mb.scatter(data=x, indices=[2, 0], updates=y, axis=1, mode="add"), [
        A + np.stack([A[:, 1], A[:, 0] * 0, A[:, 0]], 1)], x=A, y=A[:, :2]),
    "scatter_nd": case(lambda x, y: mb.scatter_nd(data=x, indices=[[1, 2], [0, 0]], updates=y, mode="update"), [
        np.stack([np.stack([A[0, 3 - 2], A[0, 1], A[0, 2]]), np.stack([A[1, 0], A[1, 1], A[0, 0]])])], x=A, y=A[0, :2]),
    "one_hot": case(lambda x, i: mb.add(x=x, y=mb.one_hot(indices=i, one_hot_vector_size=4, axis=-1, on_value=2.0,
                                                          off_value=-1.0)), [
        A[0, :2] + np.where(np.arange(4) == [[3], [0]], 2, -1)], x=A[0, :2], i=np.int32([3, 0])),
    "non_zero": case(lambda x: mb.non_zero(x=x), [np.argwhere(A[0] > 0)], x=np.maximum(A[0], 0)),
    # --- matmuls and images
    "matmul": case(lambda x, y: mb.matmul(x=x, y=y, transpose_y=True), [A @ A.transpose(0, 2, 1)], x=A, y=A),
    "matmul of vectors": case(lambda x, y: mb.matmul(x=x, y=y), [A[0, 0] @ A[0].T], x=A[0, 0], y=A[0].T),
    "einsum": case(lambda x, y: mb.einsum(values=(x, y), equation="nchw,nwhu->nchu"), [
        np.einsum("nchw,nwhu->nchu", X, X[:, :4].transpose(0, 3, 2, 1))], x=X, y=X[:, :4].transpose(0, 3, 2, 1).copy()),
    "l2_norm": case(lambda x: mb.l2_norm(x=x, epsilon=1e-5), [X / np.sqrt((X**2).sum() + 1e-5)], x=X),
    "local_response_norm": case(lambda x: mb.local_response_norm(x=x, size=3, alpha=0.5, beta=0.7, k=1.2), [
        F.local_response_norm(torch.from_numpy(X), 3, 0.5, 0.7, 1.2).numpy()], x=X),
    "l2_pool": case(lambda x: mb.l2_pool(x=x, kernel_sizes=[2, 2], strides=[2, 1], pad_type="valid"), [
        np.sqrt(4 * F.avg_pool2d(torch.from_numpy(X) ** 2, 2, (2, 1)).numpy())], x=X),
    "same max_pool": case(lambda x: mb.max_pool(x=x, kernel_sizes=[2, 2], strides=[2, 2], pad_type="same"), [
        F.max_pool2d(F.pad(torch.from_numpy(X), (0, 1, 0, 0), value=-9e9), 2, 2).numpy()], x=X),
    "crop": case(lambda x: mb.crop(x=x, crop_height=[1, 2], crop_width=[0, 1]), [X[:, :, 1:-2, :-1]], x=X),
    **{f"resize_bilinear {mode}": case(
        lambda x, m=mode: mb.resize_bilinear(x=x, target_size_height=9, target_size_width=3, sampling_mode=m), [
            F.interpolate(torch.from_numpy(X), (9, 3), mode="bilinear", align_corners=aligned).numpy()], x=X)
       for mode, aligned in (("STRICT_ALIGN_CORNERS", True), ("ALIGN_CORNERS", True), ("UNALIGN_CORNERS", False))},
    "resample": case(lambda x, y: mb.resample(
        x=x, coordinates=y, sampling_mode="bilinear", padding_mode="constant", padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one", align_corners=False), [
        F.grid_sample(torch.from_numpy(X), torch.from_numpy(U[:1, :, :2].reshape(1, 3, 1, 2) * 1.3),
                      align_corners=False).numpy()], x=X, y=(U[:1, :, :2].reshape(1, 3, 1, 2) * 1.3)),
    "affine": case(lambda x: mb.affine(
        x=x, transform_matrix=np.float32([[0.8, 0.1, 0.2, -0.1, 0.9, 0.0]]), output_height=4, output_width=3,
        sampling_mode="bilinear", padding_mode="constant", padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one", align_corners=True), [
        F.grid_sample(torch.from_numpy(X), TURNED, align_corners=True).numpy()], x=X),
    "quantize and back": case(lambda x: mb.dequantize(
        input=mb.quantize(input=x, scale=np.float32(0.02), zero_point=np.int8(3), output_dtype="int8"),
        scale=np.float32(0.02), zero_point=np.int8(3)), [
        (np.clip(np.rint(A / np.float32(0.02)) + 3, -128, 127) - 3) * np.float32(0.02)], "iOS17"),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the results of all cases by name, from one program per deployment target."""
    results = {}
    for target in sorted({target for _, _, target, _ in CASES.values()}):
        chosen = {f"c{i}": name for i, name in enumerate(CASES) if CASES[name][2] == target}
        cases = {short: (CASES[name][0], CASES[name][3]) for short, name in chosen.items()}
        made = results_of(tmp_path_factory.mktemp(target), cases, target)
        results |= {chosen[short]: values for short, values in made.items()}
    return results


@pytest.mark.parametrize("name", CASES)
def test_mil_operations_match_coremltools(name, found):
    make, expected, target, inputs = CASES[name]
    expected = inferred(make, inputs, target) if expected is None else expected
    assert all(value is not None for value in expected), "coremltools infers no value: add the expected one to the case"
    assert len(found[name]) == len(expected)
    for a, b in zip(found[name], expected, strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a, np.asarray(b, a.dtype), rtol=1e-4, atol=1e-5)


# --- branches and loops -----------------------------------------------------------------------------------------------
def test_mil_branches_and_loops_give_expected_values(tmp_path):
    def make(x, n):
        def body(i, total):
            return mb.add(x=i, y=np.int32(1)), mb.add(x=total, y=mb.mul(x=x, y=mb.cast(x=i, dtype="fp32")))

        _, total = mb.while_loop(
            _cond=lambda i, total: mb.less(x=i, y=mb.squeeze(x=n)), _body=body,
            loop_vars=(mb.const(val=np.int32(0)), mb.mul(x=x, y=np.float32(0))),
        )  # fmt: skip
        odd = mb.equal(x=mb.mod(x=mb.squeeze(x=n), y=np.int32(2)), y=np.int32(1))
        return mb.cond(pred=odd, _true_fn=lambda: mb.mul(x=total, y=np.float32(-1)), _false_fn=lambda: mb.abs(x=total))

    for n in (3, 4):
        (found,) = results_here(tmp_path, make, {"x": A, "n": np.int32([n])}, "iOS16")
        total = A * sum(range(n))
        np.testing.assert_allclose(found, -total if n % 2 else np.abs(total), rtol=1e-5)


def test_mil_lists_are_written_and_read(tmp_path):
    def make(x):
        held = mb.make_list(init_length=3, elem_shape=(4,), dynamic_length=False)
        held = mb.list_write(ls=held, index=1, value=mb.reduce_sum(x=x, axes=[0], keep_dims=False))
        held = mb.list_scatter(ls=held, indices=[0, 2], value=x)
        return mb.list_gather(ls=held, indices=[2, 1]), mb.list_read(ls=held, index=0), mb.list_length(ls=held)

    x = A[0, :2]
    gathered, first, length = results_here(tmp_path, make, {"x": x}, "iOS16")
    np.testing.assert_allclose(gathered, np.stack([x[1], x.sum(0)]), rtol=1e-5)
    np.testing.assert_allclose(first, x[0])
    assert length == 3


@pytest.mark.parametrize("after", [False, True])
def test_mil_gru_matches_numpy(after, tmp_path):
    """Gates are ordered reset, output, update; reset applies before the matmul or, as in PyTorch, after it, with two
    biases.
    """
    steps, width, hidden = 5, 3, 4
    x, h = numbers(steps, 1, width), numbers(1, hidden)
    w, r, b, c = numbers(3 * hidden, width), numbers(3 * hidden, hidden), numbers(3 * hidden), numbers(3 * hidden)
    more = {"reset_after": True, "input_bias": c} if after else {}

    def make(x, h):
        return mb.gru(x=x, initial_h=h, weight_ih=w, weight_hh=r, bias=b, output_sequence=True, **more)

    found, last = results_here(tmp_path, make, {"x": x, "h": h}, "iOS18")
    wr, wo, wz, rr, ro, rz, br, bo, bz = (v for m in (w, r, b) for v in np.split(m, 3))
    cr, co, cz = np.split(c, 3) if after else (0, 0, 0)
    state, expected = h, []
    for step in x:
        reset = 1 / (1 + np.exp(-(step @ wr.T + state @ rr.T + br + cr)))
        update = 1 / (1 + np.exp(-(step @ wz.T + state @ rz.T + bz + cz)))
        seen = reset * (state @ ro.T + bo) + co if after else (reset * state) @ ro.T + bo
        state = (1 - update) * np.tanh(step @ wo.T + seen) + update * state
        expected.append(state)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_mil_gather_with_out_of_range_index_raises(shape, tmp_path):
    x = numbers(*shape)
    with pytest.raises(mg.OutOfRangeError):
        results_here(
            tmp_path, lambda x, i: mb.gather(x=x, indices=i, axis=0), {"x": x, "i": np.int32([0, shape[0]])}, "iOS16"
        )


def test_error_names_unsupported_argument_and_its_operation(tmp_path):
    peephole = numbers(12)

    def make(x, h, c):
        return mb.lstm(
            x=x, initial_h=h, initial_c=c, weight_ih=numbers(16, 3), weight_hh=numbers(16, 4), peephole=peephole
        )[0]

    with pytest.raises(mg.UnsupportedError, match="lstm 'lstm_0_0': lstm: peepholes are not supported"):
        results_here(tmp_path, make, {"x": numbers(2, 1, 3), "h": numbers(1, 4), "c": numbers(1, 4)}, "iOS16")


def test_mil_random_operations_have_expected_moments(tmp_path):
    """Check ranges and moments only, because the numbers themselves are unspecified."""

    def make(x):
        uniform = mb.random_uniform(shape=[4000], low=2.0, high=4.0)
        normal = mb.random_normal(shape=[4000], mean=1.0, stddev=3.0, seed=7)
        flags = mb.random_bernoulli(shape=[4000], prob=0.25)
        return [mb.add(x=v, y=x) for v in (uniform, normal, flags)]

    uniform, normal, flags = results_here(tmp_path, make, {"x": np.zeros(1, np.float32)}, "iOS16")
    assert uniform.min() >= 2 and uniform.max() < 4 and abs(uniform.mean() - 3) < 0.05
    assert abs(normal.mean() - 1) < 0.2 and abs(normal.std() - 3) < 0.2
    assert set(flags.tolist()) == {0.0, 1.0} and abs(flags.mean() - 0.25) < 0.03
