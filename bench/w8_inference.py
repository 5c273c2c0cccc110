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
ENGINES = {"ONNX Runtime": ("float32",), "OpenVINO": ("float32",)}
WORKLOADS = {
    "batch 1": Workload(
        "W8 batch 1", "ResNet-50 inference, one image", 1.0, False, {"PyTorch": TORCH_MODES, **ENGINES}
    ),
    "batch 64": Workload(
        "W8 batch 64", "ResNet-50 inference, 64 images", 0.8, False, {"PyTorch": TORCH_MODES, **ENGINES}
    ),
}


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


BATCHES = dict(zip(WORKLOADS, sizes.W8_BATCHES, strict=True))
BUILDERS = {
    f"optimized, {name}": lambda batch=batch: running(trained_model().optimize_for_inference(), batch)
    for name, batch in BATCHES.items()
} | {f"as trained, {name}": lambda batch=batch: running(trained_model(), batch) for name, batch in BATCHES.items()}


def measure(options: Options) -> list[Row]:
    rows = []
    for name, workload in WORKLOADS.items():
        own = [ours(__file__, f"{mode}, {name}", mode) for mode in ("optimized", "as trained")]
        rows += compare(workload, own, options)
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
