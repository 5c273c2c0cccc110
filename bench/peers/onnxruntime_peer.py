"""ONNX Runtime as a benchmark peer: `python -m peers.onnxruntime_peer WORKLOAD MODE`, run in a separate environment.

The modes are float32 and int8, the precision of the model. Sessions use all optimizations and the same number of
threads as mpsgraph.
"""

import sys

import numpy as np
import onnxruntime
import workloads as sizes
from measuring import THREADS
from measuring.protocol import Step, serve
from peers.onnx_models import characters, gelu, images, kept_resnet50, mobile, text


def session(model: bytes | str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def w5_forward(mode: str) -> Step:
    """Return a step whose input and output stay in ONNX Runtime's memory."""
    engine = session(gelu())
    binding = engine.io_binding()
    values = np.random.default_rng(0).standard_normal(sizes.W5_SHAPE, np.float32)
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(values))
    binding.bind_output(engine.get_outputs()[0].name)

    def step() -> None:
        engine.run_with_iobinding(binding)

    return step


def w7(mode: str) -> Step:
    """Return a step that passes its state in and out (there are no variables) and draws the character with numpy."""
    engine, rng = session(characters()), np.random.default_rng(0)
    zeros = np.zeros((1, 1, sizes.W7_HIDDEN), np.float32)
    state = {"character": np.zeros(1, np.int64), "h": zeros, "c": zeros}

    def step() -> float:
        logits, state["h"], state["c"] = engine.run(None, state)
        state["character"] = np.argmax(logits + rng.gumbel(size=logits.shape), -1)
        return float(state["character"][0])

    return step


def w8(mode: str, batch: int) -> Step:
    engine, feeds = session(str(kept_resnet50(mode))), {"images": images(batch)}

    def step() -> None:
        engine.run(None, feeds)

    return step


def inference(model: bytes) -> Step:
    engine = session(model)
    feeds = {x.name: np.random.default_rng(0).standard_normal(x.shape, np.float32) for x in engine.get_inputs()}

    def step() -> None:
        engine.run(None, feeds)

    return step


WORKLOADS = {
    "W5 forward": w5_forward,
    "W7": w7,
    "W8 batch 1": lambda mode: w8(mode, 1),
    "W8 batch 64": lambda mode: w8(mode, 64),
    "W8 int8 batch 64": lambda mode: w8(mode, 64),
    "busy mobile": lambda mode: inference(mobile()),
    "busy text": lambda mode: inference(text()),
}

if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    serve(lambda: WORKLOADS[workload](mode), "onnxruntime")
