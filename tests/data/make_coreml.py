"""Write tests/data/coreml: small Core ML models and PyTorch's results, for tests without coremltools.

Requires coremltools and PyTorch (`make test-coreml` creates an environment): `python make_coreml.py`.
- image.mlpackage: convolutions of dynamic sizes, with weights in 4-bit palettes and 4-bit blocks;
- steps.mlpackage: an LSTM over a dynamic number of steps, and a linear head, in float32;
- older.mlmodel: a neural network classifier of images with five axes inside and 8-bit weights.
expected.npz contains inputs and results by model.
"""

from pathlib import Path

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import torch
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder, quantization_utils
from torch import nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent / "coreml"
EXPECTED: dict[str, np.ndarray] = {}


def traced(module: nn.Module, x: torch.Tensor, shape: tuple, target: str) -> ct.models.MLModel:
    return ct.convert(
        torch.jit.trace(module.eval(), x), inputs=[ct.TensorType("x", shape)], convert_to="mlprogram",
        outputs=[ct.TensorType("y")], compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        minimum_deployment_target=getattr(ct.target, target),
    )  # fmt: skip


def save(name: str, model: ct.models.MLModel, module: nn.Module, x: torch.Tensor) -> None:
    model.save(str(FOLDER / f"{name}.mlpackage"))
    with torch.no_grad():
        EXPECTED.update({f"{name}.x": x.numpy(), f"{name}.y": module(x).numpy()})


def image() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1),
    )  # fmt: skip
    side = ct.RangeDim(8, 64, default=16)
    whole = traced(module, torch.randn(1, 3, 16, 16), (ct.RangeDim(1, 8), 3, side, side), "iOS18")
    config = cto.OptimizationConfig(
        op_type_configs={
            "conv": cto.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=0),
        }
    )
    small = cto.palettize_weights(whole, config)
    linear = cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=4,
                                         weight_threshold=0)  # fmt: skip
    small = cto.linear_quantize_weights(small, cto.OptimizationConfig(op_type_configs={"linear": linear}))
    held = {w.val.shape: w.val for w in cto.get_weights_metadata(cto.decompress_weights(small), 1).values()}
    with torch.no_grad():
        for value in module.parameters():
            if value.ndim > 1:
                value.copy_(torch.from_numpy(np.array(held[tuple(value.shape)])))
    save("image", small, module, torch.randn(2, 3, 20, 12))


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(3, 4, batch_first=True, bidirectional=True), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0])


def steps() -> None:
    module = Steps()
    model = traced(module, torch.randn(2, 5, 3), (2, ct.RangeDim(1, 20, default=5), 3), "iOS15")
    save("steps", model, module, torch.randn(2, 7, 3))


def older() -> None:
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3, 3, 3), (5, 4 * 6 * 6)))
    builder = NeuralNetworkBuilder([("image", datatypes.Array(3, 8, 8))], [("scores", None)], mode="classifier")
    builder.add_convolution(
        "convolution", 3, 4, 3, 3, 1, 1, "valid", 1, w.transpose(2, 3, 1, 0), None, False, False, None, "image", "c"
    )
    builder.add_activation("activation", "LEAKYRELU", "c", "a", [0.1])
    builder.add_flatten("flat", 0, "a", "f")
    builder.add_inner_product("product", v, None, 4 * 6 * 6, 5, False, "f", "i")
    builder.add_softmax("soft", "i", "scores")
    builder.set_pre_processing_parameters(["image"], True, 1.0, 2.0, 3.0, image_scale=0.5)
    builder.set_class_labels(["a", "b", "c", "d", "e"], "label", "scores")
    spec = quantization_utils.quantize_weights(ct.models.MLModel(builder.spec, skip_model_load=True), 8, "linear")
    spec = spec.get_spec() if isinstance(spec, ct.models.MLModel) else spec
    whole = []
    for held in spec.neuralNetworkClassifier.layers:
        if held.WhichOneof("layer") in ("convolution", "innerProduct"):
            p = getattr(held, held.WhichOneof("layer")).weights
            steps, first = (np.array(getattr(p.quantization.linearQuantization, f)) for f in ("scale", "bias"))
            q = np.frombuffer(p.rawValue, np.uint8).reshape(len(steps), -1)
            whole.append(torch.from_numpy((q * steps[:, None] + first[:, None]).astype(np.float32)))
    pixels = torch.from_numpy(rng.integers(0, 256, (1, 3, 8, 8)).astype(np.float32))
    moved = pixels * 0.5 + torch.tensor([3.0, 2.0, 1.0]).reshape(3, 1, 1)  # The channels are ordered blue, green, red.
    y = F.leaky_relu(F.conv2d(moved, whole[0].reshape(w.shape)), 0.1).flatten(1)
    EXPECTED.update({"older.x": pixels.numpy(), "older.y": torch.softmax(y @ whole[1].T, 1)[0].numpy()})
    ct.utils.save_spec(spec, str(FOLDER / "older.mlmodel"))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    image()
    steps()
    older()
    np.savez(FOLDER / "expected.npz", **EXPECTED)
