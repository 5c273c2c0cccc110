"""OpenVINO as a benchmark peer: `python -m peers.openvino_peer WORKLOAD MODE`, run in ONNX Runtime's environment.

The modes float32 and int8 name the precision of the model. The mode bfloat16 computes the float32 model in bfloat16,
which is OpenVINO's default if the processor has the instructions. It uses one stream with the same number of threads as
mpsgraph.
"""

import sys

import openvino
import workloads as sizes
from measuring import THREADS
from measuring.protocol import Step, serve
from peers.onnx_models import images, kept_resnet50


def w8(mode: str, batch: int) -> Step:
    core = openvino.Core()
    model = core.read_model(kept_resnet50("int8" if mode == "int8" else "float32"))
    model.reshape([batch, 3, sizes.W2_IMAGE, sizes.W2_IMAGE])
    settings = {
        "INFERENCE_NUM_THREADS": THREADS,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "bf16" if mode == "bfloat16" else "f32",
    }
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    fed = images(batch)
    request.set_input_tensor(openvino.Tensor(fed))

    def step() -> None:
        request.infer()

    return step


WORKLOADS = {
    "W8 batch 1": lambda mode: w8(mode, 1),
    "W8 batch 64": lambda mode: w8(mode, 64),
    "W8 bfloat16 batch 1": lambda mode: w8(mode, 1),
    "W8 bfloat16 batch 64": lambda mode: w8(mode, 64),
    "W8 int8 batch 64": lambda mode: w8(mode, 64),
}

if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    serve(lambda: WORKLOADS[workload](mode), "openvino")
