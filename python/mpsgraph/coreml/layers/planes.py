"""Translations of convolution, pooling, normalization, and image layers, over the last three axes (C, H, W)."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ...interchange.renames import between
from .._values import Fixed
from .._wire import Message
from ._layer import Layer, applies, layer
from .reductions import OLDER


def _two(values: Any, default: int) -> list[int]:
    found = [int(v) for v in values]
    return found or [default, default]


def border(amounts: Message) -> list[int]:
    """Return the border amounts of a layer: before and after the height axis, then before and after the width axis."""
    edges = list(amounts.borderAmounts)
    return [int(v) for e in edges for v in (e.startEdgeSize, e.endEdgeSize)] or [0] * 4


def _padding(n: Layer) -> dict[str, Any]:
    if n.p.has("same"):
        heavy = n.p.same.asymmetryMode
        return {"pad_type": "same_lower" if heavy == "TOP_LEFT_HEAVY" else "same"}
    return {"pad_type": "custom", "pad": border(n.p.valid.paddingAmounts)}


@layer("convolution")
def convolution(n: Layer) -> Tensor:
    p, groups = n.p, int(n.p.nGroups) or 1
    kernel, stride, out = _two(p.kernelSize, 3), _two(p.stride, 1), int(p.outputChannels)
    bias = n.weight(p.bias, [out], "bias") if p.hasBias else None
    common = {"strides": stride, "groups": groups, "bias": bias, **_padding(n)}
    if p.isDeconvolution:
        w = n.weight(p.weights, [int(p.kernelChannels), out // groups, *kernel], "weight", 1)
        if p.outputShape.size:
            common["output_shape"] = [int(v) for v in p.outputShape]
        return n.of_planes(n.x, lambda x: n.mil("conv_transpose", x=x, weight=w, **common))
    weight: Fixed | Tensor = n.xs[1] if len(n.xs) > 1 else n.weight(
        p.weights, [out, int(p.kernelChannels), *kernel], "weight"
    )  # fmt: skip
    dilations = _two(p.dilationFactor, 1)
    return n.of_planes(n.x, lambda x: n.mil("conv", x=x, weight=weight, dilations=dilations, **common))


def _three(p: Message, name: str) -> list[int]:
    return [int(getattr(p, f"{name}{axis}")) or 1 for axis in ("Depth", "Height", "Width")]


def _custom(p: Message) -> dict[str, Any]:
    if p.paddingType == "SAME":
        return {"pad_type": "same"}
    if p.paddingType == "VALID":
        return {"pad_type": "valid"}
    ends = ("Front", "Back", "Top", "Bottom", "Left", "Right")
    return {"pad_type": "custom", "pad": [int(getattr(p, f"customPadding{end}")) for end in ends]}


@layer("convolution3d")
def convolution3d(n: Layer) -> Tensor:
    p, groups, out, given = n.p, int(n.p.nGroups) or 1, int(n.p.outputChannels), int(n.p.inputChannels)
    kernel = _three(p, "kernel")
    bias = n.weight(p.bias, [out], "bias") if p.hasBias else None
    common = {"strides": _three(p, "stride"), "groups": groups, "bias": bias, **_custom(p)}
    if p.isDeconvolution:
        w = n.weight(p.weights, [given, out // groups, *kernel], "weight", 1)
        if p.outputShape.size:
            common["output_shape"] = [int(v) for v in p.outputShape]
        return n.mil("conv_transpose", x=n.x, weight=w, dilations=_three(p, "dilation"), **common)
    w = n.weight(p.weights, [out, given // groups, *kernel], "weight")
    return n.mil("conv", x=n.x, weight=w, dilations=_three(p, "dilation"), **common)


_POOLS = {"MAX": "max_pool", "AVERAGE": "avg_pool", "L2": "l2_pool"}


@layer("pooling")
def pooling(n: Layer) -> Tensor:
    p, op = n.p, _POOLS[n.p.type]
    if p.globalPooling:
        return _global(n, p.type, [-2, -1])
    how: dict[str, Any] = {"kernel_sizes": _two(p.kernelSize, 3), "strides": _two(p.stride, 1)}
    if p.has("includeLastPixel"):
        pad = _two(p.includeLastPixel.paddingAmounts, 0)
        how |= {"pad_type": "custom", "pad": [pad[0], pad[0], pad[1], pad[1]], "ceil_mode": True}
    else:
        how |= _padding(n)
    if op == "avg_pool":
        how["exclude_padding_from_average"] = bool(p.avgPoolExcludePadding)
    return n.of_planes(n.x, lambda x: n.mil(op, x=x, **how))


def _global(n: Layer, kind: str, axes: list[int]) -> Tensor:
    return n.mil(OLDER["AVG" if kind == "AVERAGE" else kind], x=n.x, axes=axes, keep_dims=True)


@layer("pooling3d")
def pooling3d(n: Layer) -> Tensor:
    p, op = n.p, _POOLS[n.p.type]
    how: dict[str, Any] = {"kernel_sizes": _three(p, "kernel"), "strides": _three(p, "stride"), **_custom(p)}
    if op == "avg_pool":
        how["exclude_padding_from_average"] = bool(p.countExcludePadding)
    return n.mil(op, x=n.x, **how)


@layer("globalPooling3d")
def global_pooling3d(n: Layer) -> Tensor:
    return _global(n, n.p.type, [-3, -2, -1])


# --- normalizations ---------------------------------------------------------------------------------------------------
@layer("batchnorm")
def batchnorm(n: Layer) -> Tensor:
    p, g, channels = n.p, n.g, int(n.p.channels)
    epsilon = float(p.epsilon) or 1e-5
    gamma, beta = n.optional_weight("gamma", [channels], "gamma"), n.optional_weight("beta", [channels], "beta")
    if not p.computeMeanVar:
        mean, variance = (n.weight(getattr(p, name), [channels], name) for name in ("mean", "variance"))
        given = {"mean": mean, "variance": variance, "gamma": gamma, "beta": beta, "epsilon": epsilon}
        return n.of_planes(n.x, lambda x: n.mil("batch_norm", x=x, **given))
    if p.instanceNormalization:
        return n.of_planes(n.x, lambda x: n.mil("instance_norm", x=x, gamma=gamma, beta=beta, epsilon=epsilon))
    rank = n.rank(n.x)
    axes = [axis for axis in range(rank) if axis != rank - 3]

    def placed(fixed: Fixed | None) -> Tensor | None:
        return None if fixed is None else g.reshape(n.importer.weight(fixed, True), [channels, 1, 1])

    mean_of = g.mean(n.x, axes)
    return g.normalization(n.x, mean_of, g.variance(n.x, mean_of, axes), placed(gamma), placed(beta), epsilon)


@layer("mvn")
def mvn(n: Layer) -> Tensor:
    axes, g = ([-3, -2, -1] if n.p.acrossChannels else [-2, -1]), n.g
    if n.p.normalizeVariance:
        return n.mil("layer_norm", x=n.x, axes=axes, epsilon=float(n.p.epsilon) or 1e-6)
    return g.subtraction(n.x, g.mean(n.x, axes))


@layer("l2normalize")
def l2normalize(n: Layer) -> Tensor:
    return n.mil("l2_norm", x=n.x, epsilon=float(n.p.epsilon) or 1e-6)


@layer("lrn")
def lrn(n: Layer) -> Tensor:
    p = n.p
    how = {"size": int(p.localSize), "alpha": float(p.alpha), "beta": float(p.beta), "k": float(p.k) or 1.0}
    return n.of_planes(n.x, lambda x: n.mil("local_response_norm", x=x, **how))


@layer("softmax")
def softmax(n: Layer) -> Tensor:
    return n.mil("softmax", x=n.x, axis=-3)


layer.enter("softmaxND", applies("softmax", axis=(int, "axis")))


@layer("layerNormalization")
def layer_normalization(n: Layer) -> Tensor:
    shape = [int(v) for v in n.p.normalizedShape]
    gamma, beta = n.optional_weight("gamma", shape, "gamma"), n.optional_weight("beta", shape, "beta")
    axes = list(range(-len(shape), 0))
    return n.mil("layer_norm", x=n.x, axes=axes, gamma=gamma, beta=beta, epsilon=float(n.p.eps))


def _broadcast(n: Layer, proto: Message, shape: Any, part: str) -> Tensor:
    """Return weights of shape [1], [C], [1, H, W], or [C, H, W], reshaped to broadcast against the last three axes."""
    sizes = [int(v) for v in shape]
    whole = sizes if len(sizes) == 3 else [*sizes, 1, 1]
    return n.importer.weight(n.weight(proto, whole, part), True)


@layer("bias")
def bias(n: Layer) -> Tensor:
    return n.mil("add", x=n.x, y=_broadcast(n, n.p.bias, n.p.shape, "bias"))


@layer("scale")
def scale(n: Layer) -> Tensor:
    y = n.mil("mul", x=n.x, y=_broadcast(n, n.p.scale, n.p.shapeScale, "scale"))
    return n.mil("add", x=y, y=_broadcast(n, n.p.bias, n.p.shapeBias, "bias")) if n.p.hasBias else y


# --- spatial sizes ----------------------------------------------------------------------------------------------------
@layer("crop")
def crop(n: Layer) -> Tensor:
    if len(n.xs) == 1:
        top, bottom, left, right = border(n.p.cropAmounts)
        return n.mil("crop", x=n.x, crop_height=[top, bottom], crop_width=[left, right])
    y, offsets = n.x, _two(n.p.offset, 0)
    for axis, offset in zip((-2, -1), offsets, strict=True):
        y = n.g.slice_axis(y, axis, offset, n.size(n.xs[1], axis))
    return y


_EDGES = between("layer", "mil", "padding mode")


@layer("padding")
def padding(n: Layer) -> Tensor:
    kind = n.p.which("PaddingType") or "constant"
    value = float(n.p.constant.value) if kind == "constant" else None
    return n.mil("pad", x=n.x, pad=border(n.p.paddingAmounts), mode=_EDGES[kind], constant_val=value)


_MODES = {"DEFAULT": (False, False), "ALIGN_CORNERS_TRUE": (True, False), "ALIGN_CORNERS_FALSE": (False, True)}


@layer("upsample")
def upsample(n: Layer) -> Tensor:
    p = n.p
    scales = [float(v) for v in (p.fractionalScalingFactor if p.fractionalScalingFactor.size else p.scalingFactor)]
    height, width = scales or [1.0, 1.0]
    how = {"scale_factor_height": height, "scale_factor_width": width}
    if p.mode == "NN":
        return n.mil("upsample_nearest_neighbor", x=n.x, **how)
    aligned, centred = _MODES[p.linearUpsampleMode]
    return n.mil("upsample_bilinear", x=n.x, align_corners=aligned, half_pixel_centers=centred, **how)


_SAMPLING = {
    "STRICT_ALIGN_ENDPOINTS_MODE": "STRICT_ALIGN_CORNERS", "ALIGN_ENDPOINTS_MODE": "ALIGN_CORNERS",
    "UPSAMPLE_MODE": "DEFAULT", "ROI_ALIGN_MODE": "OFFSET_CORNERS",
}  # fmt: skip


@layer("resizeBilinear")
def resize_bilinear(n: Layer) -> Tensor:
    height, width = _two(n.p.targetSize, 1)
    mode = _SAMPLING[n.p.mode.samplingMethod]
    return n.mil("resize_bilinear", x=n.x, target_size_height=height, target_size_width=width, sampling_mode=mode)


@layer("cropResize")
def crop_resize(n: Layer) -> Tensor:
    """Translate cropResize, for an image tensor of rank 4, or of rank 5 with a first axis of size 1."""
    height, width = _two(n.p.targetSize, 1)
    x = n.x if n.rank(n.x) == 4 else n.reshape(n.x, [n.dim(n.x, i) for i in range(-4, 0)])
    return n.mil(
        "crop_resize", x=x, roi=n.xs[1], target_height=height, target_width=width,
        normalized_coordinates=bool(n.p.normalizedCoordinates), spatial_scale=float(n.p.spatialScale) or 1.0,
        box_coordinate_mode=n.p.boxIndicesMode.boxMode, sampling_mode=_SAMPLING[n.p.mode.samplingMethod],
    )  # fmt: skip


@layer("NonMaximumSuppression")
def non_maximum_suppression(n: Layer) -> list[Tensor]:
    """Translate NonMaximumSuppression, whose thresholds and number of boxes can be inputs."""
    iou, lowest, most = (*n.xs[2:], *(None,) * 3)[:3]
    return n.several(
        "non_maximum_suppression", 4, boxes=n.xs[0], scores=n.xs[1],
        iou_threshold=float(n.p.iouThreshold) if iou is None else iou,
        score_threshold=float(n.p.scoreThreshold) if lowest is None else lowest,
        max_boxes=int(n.p.maxBoxes) if most is None else n.ints(most),
        per_class_suppression=bool(n.p.perClassSuppression),
    )  # fmt: skip


@layer("reorganizeData")
def reorganize(n: Layer) -> Tensor:
    size = int(n.p.blockSize)
    if n.p.mode == "PIXEL_SHUFFLE":
        return n.of_planes(n.x, lambda x: n.mil("pixel_shuffle", x=x, upscale_factor=size))
    return n.of_planes(n.x, lambda x: n.mil(n.p.mode.lower(), x=x, block_size=size))
