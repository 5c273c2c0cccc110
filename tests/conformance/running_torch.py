"""Run a PyTorch case through mpsgraph.onnx and compare its outputs and gradients."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
from conformance.comparing import difference
from conformance.torch_cases import Case

RTOL, ATOL = 1e-3, 1e-4


def output_differences(case: Case) -> list[str]:
    """Describe how the model's outputs differ from PyTorch's."""
    results = list(mg.onnx.load(case.model).run(case.feeds).values())
    found = []
    for i, expected in case.numbered("output").items():
        if expected.dtype.kind == "c":  # The exporter writes complex numbers as pairs of real numbers.
            expected = np.stack([expected.real, expected.imag], -1)
        wrong = difference(results[i].numpy(), expected, RTOL, ATOL)
        found += [f"output {i}: {wrong}"] if wrong else []
    return found


def gradient_differences(case: Case) -> list[str]:
    """Describe how the gradients of sum(output * cotangent) differ from PyTorch's."""
    loaded = mg.onnx.load(case.model)
    model = loaded.bind(case.feeds) if isinstance(loaded, mg.onnx.DeferredModel) else loaded
    g, names, outputs = model.graph, list(case.feeds), list(model.outputs.values())
    parts = []
    for i, cotangent in case.numbered("cotangent").items():
        y = outputs[i]
        product = g.multiplication(y, g.constant(cotangent, dtype=y.dtype))
        total = product if cotangent.ndim == 0 else g.reshape(g.reduction_sum(product), ())
        parts.append(g.cast(total, mg.float32))
    loss = parts[0]
    for part in parts[1:]:
        loss = loss + part
    expected = {i: d for i, d in case.numbered("gradient").items() if names[i] in model.inputs}
    wanted = {i: model.inputs[names[i]] for i in expected}
    gradients = g.gradients(loss, list(wanted.values()))
    feeds = {tensor: case.feeds[name] for name, tensor in model.inputs.items()}
    results = g.run(feeds, [gradients[x] for x in wanted.values()])
    found = [f"gradient {i}: input {names[i]} defines shapes" for i in case.numbered("gradient") if i not in expected]
    for i, d in expected.items():
        wrong = difference(np.asarray(results[gradients[wanted[i]]].numpy()), d, RTOL, ATOL)
        found += [f"gradient {i}: {wrong}"] if wrong else []
    return found
