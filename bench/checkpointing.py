"""Activation checkpointing: memory of intermediate values and time of a training step of a GPT, with and without it.

The model has 12 layers and reads 1,024 positions. With checkpointing, each layer keeps only its input for the backward
pass, and the other activations are computed again.
"""

import contextlib
from collections.abc import Callable
from functools import partial

import numpy as np
from measuring.compare import Contender, take_turns
from measuring.options import Options, main, progress
from measuring.protocol import Step
from measuring.report import OURS, Row, Spread
from measuring.sides import Running, ours

LAYERS, POSITIONS, WIDTH, HEADS, VOCABULARY, BATCH = 12, 1024, 256, 4, 512, 1
MOST_MEMORY, MOST_TIME = 0.3, 1.35  # Targets: upper limits relative to the plain step.
TITLE = f"GPT of {LAYERS} layers, {POSITIONS:,} positions"


def trainer_and_batch(checkpointed: bool):  # The types would import the package before it is measured.
    """Return the trainer of a GPT, and a batch."""
    import mpsgraph as mg
    from mpsgraph import nn

    class GPT(nn.Module):
        def __init__(self) -> None:
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.1, "gelu", norm_first=True)
            self.embedding, self.layers = nn.Embedding(VOCABULARY, WIDTH), nn.TransformerEncoder(layer, LAYERS)
            self.norm, self.head = nn.LayerNorm(), nn.Linear(VOCABULARY)

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            return self.head(self.norm(self.layers(self.embedding(x), is_causal=True)))

    trainer = mg.Trainer(GPT(), optimizer="adamw", seed=0, device="cpu", checkpoint_layers=checkpointed)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, POSITIONS + 1)).astype(np.int32)
    return trainer, (tokens[:, :-1].copy(), tokens[:, 1:].copy())


def step_of(checkpointed: bool) -> Step:
    trainer, batch = trainer_and_batch(checkpointed)
    return lambda: float(trainer.train_step(*batch))


BUILDERS: dict[str, Callable[[], Step]] = {"plain": partial(step_of, False), "checkpointed": partial(step_of, True)}


def megabytes(checkpointed: bool) -> Spread:
    """Return the memory of activations, gradients, and workspace, in MB."""
    trainer, batch = trainer_and_batch(checkpointed)
    return Spread.of([trainer.memory_estimate(batch).intermediates / 1e6])


def measure(options: Options) -> list[Row]:
    with contextlib.ExitStack() as stack, progress("checkpointing") as say:
        contenders = []
        for mode in BUILDERS:
            say(mode)
            contenders.append(Contender(stack.enter_context(Running(ours(__file__, mode)))))
            contenders[-1].prepare(options.turn_seconds)
        take_turns(contenders, options, say)
    times = [Spread.of([1e3 * second for second in contender.seconds()]) for contender in contenders]
    rows = []
    for title, unit, (plain, checkpointed), most in (
        (f"{TITLE}, training step", "ms", times, MOST_TIME),
        (f"{TITLE}, memory of intermediate values", "MB", [megabytes(False), megabytes(True)], MOST_MEMORY),
    ):
        ratio = Spread.of([checkpointed.median / plain.median])
        rows.append(Row("checkpointing", title, unit, OURS, "checkpointed", checkpointed, ratio, most))
        rows.append(Row("checkpointing", title, unit, OURS, "plain", plain))
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
