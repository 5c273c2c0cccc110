"""Filters without windows, each with a reference formula in numpy.

These are neurons, softmax, arithmetic, shapes, reductions, resizing, and normalizations. The formulas are those of
Apple's headers, and follow docs/nngraph.md where the headers are incomplete.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from mpsgraph import nngraph as nn

from .nodes import NodeCase, Normalization, pool

Array = np.ndarray


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def neurons() -> list[NodeCase]:
    """Build cases from a table of (kind, class, parameters, formula, input range); no parameters mean the defaults."""
    table: list[tuple[str, Any, tuple[float, ...], Callable[[Array], Array], tuple[float, float]]] = [
        ("relu", nn.NeuronReLUNode, (), lambda x: np.maximum(x, 0), (-2, 2)),
        ("relu", nn.NeuronReLUNode, (0.3,), lambda x: np.where(x >= 0, x, 0.3 * x), (-2, 2)),
        ("linear", nn.NeuronLinearNode, (), lambda x: x, (-2, 2)),
        ("linear", nn.NeuronLinearNode, (-1.5, 0.25), lambda x: -1.5 * x + 0.25, (-2, 2)),
        ("sigmoid", nn.NeuronSigmoidNode, (), lambda x: 1 / (1 + np.exp(-x)), (-4, 4)),
        ("hard_sigmoid", nn.NeuronHardSigmoidNode, (), lambda x: np.clip(0.2 * x + 0.5, 0, 1), (-4, 4)),
        ("hard_sigmoid", nn.NeuronHardSigmoidNode, (0.5, 0.1), lambda x: np.clip(0.5 * x + 0.1, 0, 1), (-3, 3)),
        ("tanh", nn.NeuronTanHNode, (), np.tanh, (-3, 3)),
        ("tanh", nn.NeuronTanHNode, (1.7, 0.6), lambda x: 1.7 * np.tanh(0.6 * x), (-3, 3)),
        ("absolute", nn.NeuronAbsoluteNode, (), np.abs, (-2, 2)),
        ("softplus", nn.NeuronSoftPlusNode, (), lambda x: np.log1p(np.exp(x)), (-4, 4)),
        ("softplus", nn.NeuronSoftPlusNode, (2.0, 0.5), lambda x: 2 * np.log1p(np.exp(0.5 * x)), (-4, 4)),
        ("softsign", nn.NeuronSoftSignNode, (), lambda x: x / (1 + np.abs(x)), (-3, 3)),
        ("elu", nn.NeuronELUNode, (), lambda x: np.where(x >= 0, x, np.exp(x) - 1), (-3, 3)),
        ("elu", nn.NeuronELUNode, (0.4,), lambda x: np.where(x >= 0, x, 0.4 * (np.exp(x) - 1)), (-3, 3)),
        ("relun", nn.NeuronReLUNNode, (), lambda x: np.minimum(x, 6), (-8, 8)),
        ("relun", nn.NeuronReLUNNode, (0.1, 1.5), lambda x: np.minimum(np.where(x >= 0, x, 0.1 * x), 1.5), (-3, 3)),
        ("power", nn.NeuronPowerNode, (), lambda x: x, (0.5, 2)),
        ("power", nn.NeuronPowerNode, (2.0, 1.0, 3.0), lambda x: (2 * x + 1) ** 3, (0.1, 2)),
        ("power", nn.NeuronPowerNode, (1.0, 0.5, -1.5), lambda x: (x + 0.5) ** -1.5, (0.1, 2)),
        ("exponential", nn.NeuronExponentialNode, (), np.exp, (-2, 2)),
        ("exponential", nn.NeuronExponentialNode, (0.5, 1.0, 2.0), lambda x: 2.0 ** (0.5 * x + 1), (-2, 2)),
        ("logarithm", nn.NeuronLogarithmNode, (), np.log, (0.2, 3)),
        ("logarithm", nn.NeuronLogarithmNode, (2.0, 1.0, 10.0), lambda x: np.log10(2 * x + 1), (0.1, 3)),
        ("gelu", nn.NeuronGeLUNode, (), lambda x: 0.5 * x * (1 + erf(x * math.sqrt(0.5))), (-3, 3)),
    ]
    cases = [
        NodeCase(
            f"neuron_{name}",
            "default" if not given else ",".join(map(str, given)),
            lambda x, node=node, given=given: node(x, *given),
            formula,
            [pool(2, 3, 2, 5, low=low, high=high)],
        )
        for name, node, given, formula, (low, high) in table
    ]
    slopes = np.array([0.5, -0.25, 0, 2, 1])
    prelu = NodeCase(
        "neuron_prelu",
        "slopes",
        lambda x: nn.NeuronPReLUNode(x, slopes),
        lambda x: np.where(x >= 0, x, slopes * x),
        [pool(2, 3, 2, 5)],
    )
    return [*cases, prelu, *neurons_at_kinks()]


def neurons_at_kinks() -> list[NodeCase]:
    """Return neurons at kinks and for large inputs, which must not overflow.

    At 0 the derivative is 1 for rectifiers and sign(0) for the absolute value.
    """
    kinks = np.array([-2e4, -80, -1, -0.0, 0, 1, 80, 2e4]).reshape(1, 2, 1, 4)
    down = np.array([2.0, -3, 0.5, 0]).reshape(1, 1, 1, 4)

    def at(kind: str, node: Any, formula: Any, slope: Any) -> NodeCase:
        return NodeCase(kind, "kinks", node, formula, [kinks], derivative=lambda g, x: [g * slope(x)], tolerance=1e-6)

    def rectified(a: Any) -> tuple[Any, Any]:
        return (lambda x: np.where(x >= 0, x, a * x)), (lambda x: np.where(x >= 0, 1.0, a))

    return [
        at("neuron_relu", nn.NeuronReLUNode, *rectified(0)),
        at("neuron_relu", lambda x: nn.NeuronReLUNode(x, 0.25), *rectified(0.25)),
        at("neuron_prelu", lambda x: nn.NeuronPReLUNode(x, down.ravel()), *rectified(down)),
        at("neuron_relun", lambda x: nn.NeuronReLUNNode(x, 0.0, 1e5), *rectified(0)),
        at("neuron_absolute", nn.NeuronAbsoluteNode, np.abs, np.sign),
        at("neuron_softplus", nn.NeuronSoftPlusNode, lambda x: np.logaddexp(0, x),
           lambda x: np.exp(-np.logaddexp(0, -x))),
        at("neuron_sigmoid", nn.NeuronSigmoidNode, lambda x: np.exp(-np.logaddexp(0, -x)),
           lambda x: np.exp(-np.logaddexp(0, -x) - np.logaddexp(0, x))),
        at("neuron_tanh", nn.NeuronTanHNode, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
        at("neuron_softsign", nn.NeuronSoftSignNode, lambda x: x / (1 + abs(x)), lambda x: (1 + abs(x)) ** -2.0),
        at("neuron_elu", nn.NeuronELUNode, lambda x: np.where(x >= 0, x, np.expm1(np.minimum(x, 0))),
           lambda x: np.exp(np.minimum(x, 0))),
        at("neuron_gelu", nn.NeuronGeLUNode, lambda x: 0.5 * x * (1 + erf(x * math.sqrt(0.5))),
           lambda x: 0.5 * (1 + erf(x * math.sqrt(0.5))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    ]  # fmt: skip


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    y = x - x.max(-1, keepdims=True)
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


def softmaxes() -> list[NodeCase]:
    cases = []
    for label, x in {"channels": pool(2, 3, 2, 5), "one": pool(2, 2, 2, 1), "large": 1e4 * pool(1, 2, 2, 3)}.items():
        # A step of 1e-5 vanishes compared with 1e4. The softmax is one-hot there, so its derivative is 0.
        slope = (lambda g, x: [np.zeros_like(x)]) if label == "large" else None
        cases.append(NodeCase("softmax", label, nn.SoftMaxNode, softmax, [x], derivative=slope))
        cases.append(NodeCase("log_softmax", label, nn.LogSoftMaxNode, log_softmax, [x], gradient=label != "large"))
    return cases


def repeated(x: Array, stride: tuple[int, int, int]) -> Array:
    """Reduce x to its first pixel, row or channel along each axis whose stride (x, y, channels) is 0."""
    for axis, step in zip((2, 1, 3), stride, strict=True):
        if step == 0:
            x = x.take([0], axis)
    return x


OPERATIONS: dict[str, tuple[Any, Callable[[Array, Array], Array]]] = {
    "addition": (nn.AdditionNode, np.add),
    "subtraction": (nn.SubtractionNode, np.subtract),
    "multiplication": (nn.MultiplicationNode, np.multiply),
    "division": (nn.DivisionNode, np.divide),
}


def arithmetic() -> list[NodeCase]:
    cases = []
    for kind, (node, operation) in OPERATIONS.items():
        for label, shape, options in [
            ("plain", (2, 3, 4, 2), {}),
            ("scaled", (2, 3, 4, 2), {"primary_scale": -2.0, "secondary_scale": 0.5, "bias": 0.75}),
            ("one number", (2, 1, 1, 2), {"secondary_stride": (0, 0, 1)}),
            ("one channel", (2, 3, 4, 1), {"secondary_stride": (1, 1, 0)}),
            ("first row", (2, 3, 4, 2), {"secondary_stride": (1, 0, 1)}),
            ("all of one", (2, 1, 1, 1), {"secondary_stride": (0, 0, 0), "bias": -1.0}),
        ]:

            def formula(x: Array, y: Array, operation: Any = operation, o: dict[str, Any] = options) -> Array:
                y = repeated(y, o.get("secondary_stride", (1, 1, 1)))
                return operation(o.get("primary_scale", 1) * x, o.get("secondary_scale", 1) * y) + o.get("bias", 0)

            sources = [pool(2, 3, 4, 2, seed=1), pool(*shape, seed=2, low=0.5)]
            build = lambda x, y, node=node, options=options: node(x, y, **options)  # noqa: E731
            cases.append(NodeCase(kind, label, build, formula, sources, gradient=kind != "division"))
        # The gradient ignores the clamp, as on Apple's devices.
        cases.append(
            NodeCase(
                kind,
                "clamped",
                lambda x, y, node=node: node(x, y, minimum_value=-0.5, maximum_value=0.25),
                lambda x, y, operation=operation: np.clip(operation(x, y), -0.5, 0.25),
                [pool(1, 3, 4, 2, seed=3), pool(1, 3, 4, 2, seed=4, low=0.5)],
                gradient=kind != "division",
                derivative={
                    "addition": lambda g, x, y: [g, g],
                    "subtraction": lambda g, x, y: [g, -g],
                    "multiplication": lambda g, x, y: [g * y, g * x],
                }.get(kind),
            )
        )
    ties = [np.floor(2 * pool(2, 3, 4, 2, seed=5)), np.floor(2 * pool(2, 3, 4, 2, seed=6))]
    for name, compare in {
        "equal": np.equal,
        "not_equal": np.not_equal,
        "less": np.less,
        "less_or_equal": np.less_equal,
        "greater": np.greater,
        "greater_or_equal": np.greater_equal,
    }.items():
        build = lambda x, y, name=name: nn.ComparisonNode(x, y, name)  # noqa: E731
        formula = lambda x, y, compare=compare: compare(x, y).astype(float)  # noqa: E731
        cases.append(NodeCase("comparison", name, build, formula, ties, gradient=False))
    return cases


def concatenation(*parts: Array) -> Array:
    """Concatenate the channels, padding those of each part with zeros to a multiple of four."""
    return np.concatenate([np.pad(p, ((0, 0), (0, 0), (0, 0), (0, -p.shape[3] % 4))) for p in parts], 3)


MODES = {
    "zero": "constant",
    "constant": "constant",
    "clamp": "edge",
    "mirror": "reflect",
    "mirror_with_edge": "symmetric",
}


def shapes() -> list[NodeCase]:
    def together(*images: Any) -> Any:
        return nn.ConcatenationNode(list(images))

    cases = [
        NodeCase("concatenation", f"{widths}", together, concatenation, [pool(2, 2, 3, c, seed=c) for c in widths])
        for widths in [(4, 8), (1, 1), (7, 11), (3,), (4, 2, 5)]
    ]
    sizes = {"result_width": 4, "result_height": 1, "result_feature_channels": 6}
    flat = {"result_width": 1, "result_height": 1, "result_feature_channels": 24}
    for label, size in {"image": sizes, "flat": flat}.items():
        w, h, c = size.values()
        build = lambda x, size=size: nn.ReshapeNode(x, **size)  # noqa: E731
        formula = lambda x, shape=(h, w, c): x.reshape(len(x), *shape)  # noqa: E731
        cases.append(NodeCase("reshape", label, build, formula, [pool(2, 3, 2, 4)]))
    for mode, numpys in MODES.items():
        value = 2.5 if mode == "constant" else 0.0

        def formula(x: Array, mode: str = numpys, value: float = value) -> Array:
            extra = {"constant_values": value} if mode == "constant" else {}
            return np.pad(x, ((0, 0), (2, 1), (1, 3), (0, 1)), mode, **extra)  # Padding of y, x, and channels.

        build = lambda x, mode=mode, value=value: nn.PadNode(x, (1, 2, 0), (3, 1, 1), mode, value)  # noqa: E731
        cases.append(NodeCase("pad", mode, build, formula, [pool(2, 3, 4, 2)]))
    gram = lambda x, alpha=1.0: alpha * np.einsum("nhwf,nhwc->nfc", x, x)[:, None]  # noqa: E731
    cases.append(NodeCase("gram_matrix_calculation", "1", nn.GramMatrixCalculationNode, gram, [pool(2, 3, 2, 4)]))
    build = lambda x: nn.GramMatrixCalculationNode(x, alpha=0.25)  # noqa: E731
    cases.append(NodeCase("gram_matrix_calculation", "0.25", build, lambda x: gram(x, 0.25), [pool(2, 3, 2, 4)]))
    ones = NodeCase(
        "initial_gradient", "ones", nn.InitialGradientNode, np.ones_like, [pool(2, 3, 2, 4)], gradient=False
    )
    return [*cases, ones]


def reductions() -> list[NodeCase]:
    axes = {"Row": 2, "Column": 1, "FeatureChannels": 3}
    ways: dict[str, Callable[..., Array]] = {"Min": np.min, "Max": np.max, "Mean": np.mean, "Sum": np.sum}
    snake = {"Row": "row", "Column": "column", "FeatureChannels": "feature_channels"}
    cases = []
    for axis, number in axes.items():
        for way, function in ways.items():
            cases.append(
                NodeCase(
                    f"reduction_{snake[axis]}_{way.lower()}",
                    "plain",
                    getattr(nn, f"Reduction{axis}{way}Node"),
                    lambda x, f=function, n=number: f(x, axis=n, keepdims=True),
                    [pool(2, 3, 5, 4)],
                    gradient=False,
                )
            )
        total = getattr(nn, f"Reduction{axis}SumNode")
        build = lambda x, node=total: node(x, weight=-0.5)  # noqa: E731
        half = lambda x, n=number: -0.5 * x.sum(n, keepdims=True)  # noqa: E731
        cases.append(
            NodeCase(f"reduction_{snake[axis]}_sum", "weight", build, half, [pool(2, 3, 5, 4)], gradient=False)
        )
    ties = np.floor(2 * pool(2, 3, 5, 6))
    for way, first in {"Min": np.argmin, "Max": np.argmax}.items():
        node = getattr(nn, f"ReductionFeatureChannelsArgument{way}Node")
        formula = lambda x, first=first: first(x, 3)[..., None].astype(float)  # noqa: E731
        kind = f"reduction_feature_channels_argument_{way.lower()}"
        cases.append(NodeCase(kind, "ties", node, formula, [ties], gradient=False))
    mean = lambda x: x.mean((1, 2), keepdims=True)  # noqa: E731
    return [*cases, NodeCase("reduction_spatial_mean", "plain", nn.ReductionSpatialMeanNode, mean, [pool(2, 3, 5, 4)])]


def sampled(x: Array, axis: int, at: Array) -> Array:
    """Interpolate linearly between the pixels of an axis, repeating the pixel at the edge."""
    size = x.shape[axis]
    low = np.floor(at).astype(int)
    share = (at - low).reshape([-1 if a == axis else 1 for a in range(4)])
    left, right = np.clip(low, 0, size - 1), np.clip(low + 1, 0, size - 1)
    return x.take(left, axis) * (1 - share) + x.take(right, axis) * share


def lanczos(x: Array, axis: int, to: int) -> Array:
    """Resize an axis with a Lanczos kernel of three lobes.

    The kernel is widened for downscaling, its weights are normalized to sum 1, and pixel centers are aligned.
    """
    size = x.shape[axis]
    scale = size / to
    wide = max(1.0, scale)
    rows = np.zeros((to, size))
    for i in range(to):
        centre = (i + 0.5) * scale - 0.5
        for j in range(-8 * size - 24, 9 * size + 24):
            d = (j - centre) / wide
            if abs(d) < 3:
                rows[i, min(max(j, 0), size - 1)] += np.sinc(d) * np.sinc(d / 3)
    rows /= rows.sum(1, keepdims=True)
    return np.moveaxis(np.tensordot(rows, x, (1, axis)), 0, axis)


def resizes() -> list[NodeCase]:
    cases = []
    for x, y in [(2, 2), (1, 3), (4, 1)]:
        size = {"integer_scale_factor_x": x, "integer_scale_factor_y": y}
        nearest = lambda a, x=x, y=y: a.repeat(y, 1).repeat(x, 2)  # noqa: E731
        build = lambda a, size=size: nn.UpsamplingNearestNode(a, **size)  # noqa: E731
        cases.append(NodeCase("upsampling_nearest", f"{x},{y}", build, nearest, [pool(2, 3, 2, 3)]))
        for align in (False, True):

            def bilinear(a: Array, x: int = x, y: int = y, align: bool = align) -> Array:
                for axis, factor in ((1, y), (2, x)):
                    n = a.shape[axis]
                    step = (n - 1) / max(n * factor - 1, 1) if align else 1 / factor
                    a = sampled(a, axis, np.arange(n * factor) * step)
                return a

            build = lambda a, s=size, align=align: nn.UpsamplingBilinearNode(a, **s, align_corners=align)  # noqa: E731
            cases.append(NodeCase("upsampling_bilinear", f"{x},{y},{align}", build, bilinear, [pool(2, 3, 2, 3)]))
    for width, height in [(5, 7), (2, 2), (4, 3), (1, 1)]:

        def scaled(a: Array, w: int = width, h: int = height) -> Array:
            for axis, to in ((1, h), (2, w)):
                a = sampled(a, axis, (np.arange(to) + 0.5) * a.shape[axis] / to - 0.5)
            return a

        build = lambda a, w=width, h=height: nn.BilinearScaleNode(a, width=w, height=h)  # noqa: E731
        cases.append(NodeCase("bilinear_scale", f"{width}x{height}", build, scaled, [pool(2, 3, 4, 2)], gradient=False))
        build = lambda a, w=width, h=height: nn.LanczosScaleNode(a, width=w, height=h)  # noqa: E731
        by_hand = lambda a, w=width, h=height: lanczos(lanczos(a, 1, h), 2, w)  # noqa: E731
        cases.append(NodeCase("lanczos_scale", f"{width}x{height}", build, by_hand, [pool(2, 3, 4, 2)], gradient=False))
    return cases


def normalized(x: Array, axes: tuple[int, ...], p: dict[str, Array], epsilon: float, groups: int = 1) -> Array:
    shape = x.shape
    parts = x.reshape(*shape[:3], groups, -1) if groups > 1 or axes == (1, 2, 4) else x
    mean, variance = parts.mean(axes, keepdims=True), parts.var(axes, keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + epsilon)).reshape(shape)
    return y * p.get("gamma", 1) + p.get("beta", 0)


def normalizations() -> list[NodeCase]:
    both = {"gamma": pool(6, seed=8, low=0.5), "beta": pool(6, seed=9)}
    cases = []
    for label, p in {"gamma and beta": both, "gamma": {"gamma": both["gamma"]}, "none": {}}.items():
        for kind, node, axes, groups in [
            ("instance_normalization", nn.InstanceNormalizationNode, (1, 2), 1),
            ("group_normalization", nn.GroupNormalizationNode, (1, 2, 4), 3),
            ("group_normalization", nn.GroupNormalizationNode, (1, 2, 4), 1),
        ]:
            formula = lambda x, axes=axes, groups=groups, **p: normalized(x, axes, p, 1e-3, groups)  # noqa: E731
            source = lambda a, groups=groups: Normalization(6, epsilon=1e-3, groups=groups, **a)  # noqa: E731
            cases.append(NodeCase(kind, f"{label},{groups}", node, formula, [pool(2, 3, 2, 6)], p, source))
        always = lambda x, s: nn.BatchNormalizationNode(x, s, flags="calculate_statistics_always")  # noqa: E731
        formula = lambda x, **p: normalized(x, (0, 1, 2), p, 1e-3)  # noqa: E731
        source = lambda a: Normalization(6, epsilon=1e-3, **a)  # noqa: E731
        cases.append(NodeCase("batch_normalization", f"{label},batch", always, formula, [pool(3, 3, 2, 6)], p, source))
        never = lambda x, s: nn.BatchNormalizationNode(x, s, flags="calculate_statistics_never")  # noqa: E731
        kept = {**p, "mean": pool(6, seed=10), "variance": pool(6, seed=11, low=0.5)}

        def with_kept(x: Array, mean: Array, variance: Array, **p: Array) -> Array:
            return (x - mean) / np.sqrt(variance + 1e-3) * p.get("gamma", 1) + p.get("beta", 0)

        cases.append(
            NodeCase("batch_normalization", f"{label},kept", never, with_kept, [pool(3, 3, 2, 6)], kept, source)
        )
    return cases


CASES = [
    *neurons(),
    *softmaxes(),
    *arithmetic(),
    *shapes(),
    *reductions(),
    *resizes(),
    *normalizations(),
]
