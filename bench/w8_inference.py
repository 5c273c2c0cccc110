"""W8: ResNet-50 in inference on images 32 x 32, at batch 1 and 64, and in int8 at batch 64; ours and the peers.

Batch normalization by moving averages that are not trivial. The engines fold it into the convolutions before they run;
ours does so where the model is asked to. Images are fed from and logits returned to numpy on every side that can.
"""

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import nn
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


def model_with_averages(batch: int) -> tuple[mg.Graph, nn.Module, mg.Tensor]:
    """A graph, the network in it in inference mode, its input; moving averages as if it had been trained."""
    g = mg.Graph()
    model = network().eval()
    x = g.placeholder((-1, sizes.W2_IMAGE, sizes.W2_IMAGE, 3), name="images")
    model(x)
    rng = np.random.default_rng(0)
    state = model.state_dict()
    for name, value in state.items():
        if name.endswith("moving_mean"):
            state[name] = rng.normal(0, 0.1, value.shape).astype(np.float32)
        elif name.endswith("moving_variance"):
            state[name] = rng.uniform(0.5, 1.5, value.shape).astype(np.float32)
    model.load_state_dict(state)
    return g, model, x


def graph(batch: int) -> Step:
    g, model, x = model_with_averages(batch)
    fed = images(batch)
    executable = g.compile({x: fed}, [model(x)])

    def step() -> None:
        executable.run([fed])

    return step


BUILDERS = {
    f"graph {name}": lambda batch=batch: graph(batch) for name, batch in zip(WORKLOADS, sizes.W8_BATCHES, strict=True)
}


def measure(options: Options) -> list[Row]:
    rows = []
    for name, workload in WORKLOADS.items():
        rows += compare(workload, [ours(__file__, f"graph {name}", "graph")], options)
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
