"""W8: ResNet-50 inference on 32 x 32 images in float32, bfloat16, and int8, in mpsgraph and its peers.

Batches are 1 and 64 in float32 and bfloat16, and 64 in int8. Batch normalization uses nontrivial moving averages. The
peers fold it into the convolutions before running, as mpsgraph does when optimizing for inference; mpsgraph is also
measured as trained. In bfloat16, the trained weights, the images, and the logits are float32.
"""

from collections.abc import Callable
from functools import partial

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
LOW_PEERS = {"PyTorch": tuple(f"bfloat16 {mode}" for mode in TORCH_MODES), "OpenVINO": ("bfloat16",)}
BFLOAT16 = {
    batch: Workload(f"W8 bfloat16 batch {batch}", f"{w.title}, in bfloat16", target=None, trains=False, peers=LOW_PEERS)
    for batch, w in WORKLOADS.items()
}
INT8 = Workload(
    "W8 int8 batch 64",
    "ResNet-50 inference, 64 images, quantized to int8",
    target=0.7,
    trains=False,
    peers={"ONNX Runtime": ("int8",), "OpenVINO": ("int8",)},
)
CALIBRATION = 64  # Number of images.


def trained_model(precision: str = "float32") -> mg.Model:
    """Return the network in inference mode, with random moving averages as if it had been trained."""
    g, network_ = mg.Graph(), network().eval()
    x = g.placeholder((-1, sizes.W2_IMAGE, sizes.W2_IMAGE, 3), name="images")
    with mg.autocast(precision):
        logits = network_(x)
    logits = g.cast(logits, mg.float32)
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


def built(model: Callable[[], mg.Model], batch: int) -> Step:
    return running(model(), batch)


def quantized() -> mg.Model:
    """Return the model quantized with as many calibration images as ONNX Runtime's tool gets."""
    return trained_model().quantize(images(CALIBRATION))


MODELS = {"optimized": lambda: trained_model().optimize_for_inference(), "as trained": trained_model}
LOW_MODELS = {
    "bfloat16 optimized": lambda: trained_model("bfloat16").optimize_for_inference(),
    "bfloat16 as trained": lambda: trained_model("bfloat16"),
}
BUILDERS: dict[str, Callable[[], Step]] = {
    f"{mode}, batch {batch}": partial(built, model, batch)
    for mode, model in (MODELS | LOW_MODELS).items()
    for batch in sizes.W8_BATCHES
}
BUILDERS["int8, batch 64"] = lambda: running(quantized(), 64)


def measure(options: Options) -> list[Row]:
    rows = []
    for workloads, models in ((WORKLOADS, MODELS), (BFLOAT16, LOW_MODELS)):
        for batch, workload in workloads.items():
            rows += compare(workload, [ours(__file__, f"{mode}, batch {batch}", mode) for mode in models], options)
    return rows + compare(INT8, [ours(__file__, "int8, batch 64", "int8")], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
