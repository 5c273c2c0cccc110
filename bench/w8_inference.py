"""W8: ResNet-50 in inference on images 32 x 32, at batch 1 and 64, and in int8 at batch 64; ours and the peers.

Batch normalization by moving averages that are not trivial. The engines fold it into the convolutions before they run,
and so does ours when it is asked to; it is also measured as it was trained.
"""

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from w2_resnet50 import images, network

TORCH_MODES = ("script", "freeze", "freeze channels_last", "compile channels_last")
PEERS = {"PyTorch": TORCH_MODES, "ONNX Runtime": ("float32",), "OpenVINO": ("float32",)}
WORKLOADS = {
    1: Workload("W8 batch 1", "ResNet-50 inference, one image", 1.0, trains=False, peers=PEERS),
    64: Workload("W8 batch 64", "ResNet-50 inference, 64 images", 0.8, trains=False, peers=PEERS),
}
INT8 = Workload(
    "W8 int8 batch 64",
    "ResNet-50 inference, 64 images, quantized to int8",
    target=0.7,
    trains=False,
    peers={"ONNX Runtime": ("int8",), "OpenVINO": ("int8",)},
)
CALIBRATION = 64  # images


def trained_model() -> mg.Model:
    """The network in inference mode, with moving averages as if it had been trained."""
    g, network_ = mg.Graph(), network().eval()
    x = g.placeholder((-1, sizes.W2_IMAGE, sizes.W2_IMAGE, 3), name="images")
    logits = network_(x)
    rng = np.random.default_rng(0)
    state = network_.state_dict()
    for name, value in state.items():
        if name.endswith("moving_mean"):
            state[name] = rng.normal(0, 0.1, value.shape).astype(np.float32)
        elif name.endswith("moving_variance"):
            state[name] = rng.uniform(0.5, 1.5, value.shape).astype(np.float32)
    network_.load_state_dict(state)
    return mg.Model(g, {"images": x}, {"logits": logits})


def running(model: mg.Model, batch: int) -> Step:
    fed = images(batch)
    executable = model.graph.compile({model.inputs["images"]: fed}, [model.outputs["logits"]])

    def step() -> None:
        executable.run([fed])

    return step


def quantized() -> mg.Model:
    """By ranges seen on as many images as ONNX Runtime's tool is given."""
    return trained_model().quantize(images(CALIBRATION))


MODELS = {"optimized": lambda: trained_model().optimize_for_inference(), "as trained": trained_model}
BUILDERS = {
    f"{mode}, batch {batch}": lambda model=model, batch=batch: running(model(), batch)
    for mode, model in MODELS.items()
    for batch in sizes.W8_BATCHES
}
BUILDERS["int8, batch 64"] = lambda: running(quantized(), 64)


def measure(options: Options) -> list[Row]:
    rows = []
    for batch, workload in WORKLOADS.items():
        rows += compare(workload, [ours(__file__, f"{mode}, batch {batch}", mode) for mode in MODELS], options)
    return rows + compare(INT8, [ours(__file__, "int8, batch 64", "int8")], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
