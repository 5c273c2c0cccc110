"""ONNX Runtime as the peer of onnx_files.py: `python -m peers.onnx_files_peer PATH FEEDS RESULTS THREADS`."""

import atexit
import sys

import numpy as np
import onnxruntime
from measuring.protocol import Step, serve


def main(path: str, feeds: str, results: str, threads: str) -> None:
    fed, last = dict(np.load(feeds)), []
    atexit.register(lambda: np.savez(results, *last))

    def build() -> Step:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = int(threads), 1
        options.log_severity_level = 3
        engine = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def step() -> None:
            last[:] = engine.run(None, fed)

        return step

    serve(build, "onnxruntime")


main(*sys.argv[1:])
