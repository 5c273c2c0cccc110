"""W13: one step of LoRA on a language model of 100M parameters, 4 sequences of 512 tokens, in mpsgraph and PyTorch.

The model is a Llama with 12 layers of 768 features and a tied head. An adapter of rank 8 on the queries and values
trains with AdamW; PyTorch's side is a model of transformers with an adapter of PEFT. Tokens are uniformly random. Sizes
are in workloads.py; memory.py measures the peak memory.
"""

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from mpsgraph import lm

TARGET = 0.85
TORCH_MODES = ("eager", "compile")
WORKLOAD = Workload("W13", "LoRA step, Llama of 98M parameters, 4 x 512 tokens", TARGET, peers={"PyTorch": TORCH_MODES})


def trainer() -> Step:
    model = lm.create(sizes.W13_MODEL)
    lm.add_adapters(model, sizes.W13_RANK, targets=("query", "value"))
    training = mg.Trainer(model, optimizer=mg.optim.AdamW(sizes.W13_RATE), metrics=())
    rng = np.random.default_rng(0)
    tokens = rng.integers(sizes.W13_MODEL["vocab_size"], size=(sizes.W13_BATCH, sizes.W13_STEPS + 1), dtype=np.int32)
    given, following = (np.ascontiguousarray(part) for part in (tokens[:, :-1], tokens[:, 1:]))
    return lambda: float(training.train_step(given, following))


BUILDERS = {"Trainer": trainer}


def measure(options: Options) -> list[Row]:
    return compare(WORKLOAD, [ours("w13_adapters.py", "Trainer")], options)


if __name__ == "__main__":
    main(measure, BUILDERS)
