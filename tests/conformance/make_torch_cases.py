"""Create cases from PyTorch's own test inputs: models exported to ONNX, with PyTorch's outputs and gradients.

`make conformance` runs this in an environment with torch 2.13, onnxscript, and onnx 1.20.1; mpsgraph is not used.
OpInfo and ModuleInfo are PyTorch's lists of operators and modules with sample inputs. Each case of the archive is a
model and its arrays: inputs, outputs, a random cotangent per output, and the gradients of sum(output * cotangent).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import random
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as tree

NAMES = Path(__file__).parent / "data" / "torch_operators.txt"


class Call(torch.nn.Module):
    """A function with fixed arguments, except for the tensors, which are the module's inputs."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.leaves, self.spec = tree.tree_flatten((arguments, keywords))
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.function = function  # Assigning a module registers its parameters.
        self.eval()

    def tensors(self) -> list[torch.Tensor]:
        return [self.leaves[i].detach().clone() for i in self.places]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, keywords = tree.tree_unflatten(leaves, self.spec)
        outputs = [x for x in tree.tree_leaves(self.function(*arguments, **keywords)) if isinstance(x, torch.Tensor)]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def arrays_of(call: Call) -> dict[str, np.ndarray]:
    """Return what PyTorch computes: inputs, outputs, cotangents, and gradients."""
    torch.manual_seed(0)
    inputs = [x.requires_grad_(x.is_floating_point()) for x in call.tensors()]
    outputs = call(*inputs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    arrays = {f"input_{i}": plain(x) for i, x in enumerate(inputs)}
    arrays |= {f"output_{i}": plain(y) for i, y in enumerate(outputs)}
    loss: Any = 0
    for i, y in enumerate(outputs):
        if y.is_floating_point():
            cotangent = torch.randn(y.shape)
            arrays[f"cotangent_{i}"] = plain(cotangent)
            loss = loss + (y * cotangent).sum() if y.requires_grad else loss
    wanted = [i for i, x in enumerate(inputs) if x.requires_grad]
    if wanted and isinstance(loss, torch.Tensor) and loss.requires_grad:
        gradients = torch.autograd.grad(loss, [inputs[i] for i in wanted], allow_unused=True)
        arrays |= {f"gradient_{i}": plain(d) for i, d in zip(wanted, gradients, strict=True) if d is not None}
    return arrays


def plain(x: torch.Tensor) -> np.ndarray:
    return x.detach().resolve_conj().resolve_neg().numpy(force=True)


def exported(call: Call) -> bytes:
    """Return the model that PyTorch exports; raise an error if it has other inputs than the call."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        program = torch.onnx.export(call, tuple(call.tensors()), dynamo=True, verbose=False, optimize=True)
    proto = program.model_proto
    if len(proto.graph.input) != len(call.places):
        raise ValueError(f"the exported model has {len(proto.graph.input)} inputs, expected {len(call.places)}")
    return proto.SerializeToString()


Made = Iterator[tuple[str, Callable[[], Call]]]


def seed() -> None:
    """Seed all generators so that an operator's samples do not depend on earlier ones."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def operators(per: int) -> Made:
    from torch.testing._internal.common_methods_invocations import op_db

    wanted = set(NAMES.read_text().split())
    for info in op_db:
        if info.name not in wanted or torch.float32 not in info.supported_dtypes("cpu"):
            continue
        seed()
        try:
            samples = list(info.sample_inputs("cpu", torch.float32))
        except Exception:  # Some samples need libraries that this build of PyTorch lacks.
            continue
        for j, i in enumerate(np.linspace(0, len(samples) - 1, min(per, len(samples)))):
            sample = samples[int(i)]
            name = f"{info.name}.{info.variant_test_name}.{j}"
            yield name, partial(Call, info.op, (sample.input, *sample.args), sample.kwargs)


def modules(per: int) -> Made:
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        arguments = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": True}
        seed()
        samples = info.module_inputs_func(info, **arguments)
        for j, sample in enumerate(samples[:per]):
            yield f"{info.module_cls.__name__}.{j}", partial(module_call, info.module_cls, sample)


def module_call(kind: type[torch.nn.Module], sample: Any) -> Call:
    torch.manual_seed(0)
    module = kind(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    return Call(module, sample.forward_input.args, sample.forward_input.kwargs)


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["operators", "modules"])
    parser.add_argument("archive", type=Path, help="the .tar.xz archive to write")
    parser.add_argument("--per", type=int, default=1, help="number of samples per operator")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    outcomes: Counter[str] = Counter()
    with tarfile.open(options.archive, "w:xz") as archive:
        for name, make in (operators if options.kind == "operators" else modules)(options.per):
            try:
                call = make()
                arrays = arrays_of(call)
                model = exported(call)
            except Exception as error:  # Skip samples that PyTorch cannot compute or export.
                outcomes[f"left out: {type(error).__name__}"] += 1
                continue
            stored = io.BytesIO()
            np.savez(stored, **arrays)
            directory = name.replace("/", "_")
            add(archive, f"{directory}/model.onnx", model)
            add(archive, f"{directory}/arrays.npz", stored.getvalue())
            outcomes["cases"] += 1
            outcomes["with gradients"] += any(key.startswith("gradient") for key in arrays)
    print(dict(outcomes))


if __name__ == "__main__":
    main()
