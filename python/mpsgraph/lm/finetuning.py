"""Fine-tuning of a checkpoint with adapters, as the command `mpsgraph lm finetune` does it, and merging.

A run is a folder with the adapter, the options, and a checkpoint of training. A run that was interrupted, also by the
end of its process, continues from the last checkpoint, and ends with the same bytes as one that was not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._display import shown
from ..errors import CheckpointError, GraphError
from ..optim import AdamW
from ..optim.schedules import CosineRate, WarmUp
from ..training.callbacks import Callback, PeriodicCheckpoint
from ..training.history import History
from ..training.trainer import Trainer
from .adapters import add_adapters, merge_adapters
from .datasets import TokenBatches, chat_dataset, completion_dataset, records_of, text_dataset
from .files import load, save
from .peft import load_adapters, save_adapters
from .storage import read_json
from .tokenizer import Tokenizer

_OPTIONS, _STATE = "finetuning.json", "training.safetensors"
_KINDS = {"messages": chat_dataset, "completion": completion_dataset, "text": text_dataset}


@dataclass(frozen=True)
class FineTuning:
    """Options of a run.

    Attributes:
        model: Folder of the checkpoint.
        data: JSONL file of texts, completions, or conversations.
        validation: JSONL file that is evaluated after each epoch, or None.
        rank: Rank of the adapter.
        alpha: Numerator of the scale alpha / rank, or None for 2 * rank.
        targets: Ends of the paths of the projections, or a pattern; see `lm.add_adapters`.
        dropout: Dropout of the adapter.
        dora: Whether the adapter is DoRA.
        rank_stabilized: Whether the scale is alpha / sqrt(rank).
        epochs: Number of epochs.
        steps: Number of steps, instead of epochs, or None.
        batch_size: Number of rows of a batch.
        max_length: Maximum number of tokens of a row.
        pack: Whether rows hold several samples.
        truncate: Whether to drop the end of long samples.
        accumulate: Number of batches of one update.
        rate: Highest learning rate.
        warm_up: Number of updates in which the rate rises to it; it then falls along a cosine.
        weight_decay: Weight decay.
        seed: Seed of dropout and of the order of the data.
        dtype: Element type of the computation, or None for the checkpoint's.
        save_every: Number of steps between checkpoints.
        ignore: Entries of config.json, tensors, and entries of the data that are not used.
    """

    model: str
    data: str
    validation: str | None = None
    rank: int = 8
    alpha: float | None = None
    targets: str | list[str] = field(default_factory=lambda: ["query", "value"])
    dropout: float = 0.0
    dora: bool = False
    rank_stabilized: bool = False
    epochs: int = 1
    steps: int | None = None
    batch_size: int = 4
    max_length: int = 512
    pack: bool = False
    truncate: bool = False
    accumulate: int = 1
    rate: float = 1e-4
    warm_up: int = 0
    weight_decay: float = 0.0
    seed: int = 0
    dtype: str | None = None
    save_every: int = 100
    ignore: list[str] = field(default_factory=list)


def finetune(
    options: FineTuning,
    output: Path,
    *,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> History:
    """Train an adapter and write it to a folder.

    Args:
        options: Options of the run.
        output: Folder of the run, which holds the adapter at the end.
        resume: Whether to continue a run that was interrupted, with the same options.
        progress: Whether to show progress.
        callbacks: Further callbacks of the fit.

    Returns:
        The history of the run.

    Raises:
        CheckpointError: If the folder holds another run and resume is False, or resume is True and the options differ.
        GraphError: If the checkpoint has no tokenizer.
        DataError: If a line of the data is invalid.
    """
    _prepare(options, output, resume)
    model, tokenizer = load(options.model, dtype=options.dtype, ignore=options.ignore)
    if tokenizer is None:
        raise GraphError(f"{options.model} has no tokenizer.json, which is needed to read texts")
    data = dataset_of(options.data, tokenizer, options)
    validation = None if options.validation is None else dataset_of(options.validation, tokenizer, options)
    add_adapters(
        model, options.rank, alpha=options.alpha, targets=options.targets, dropout=options.dropout,
        dora=options.dora, rank_stabilized=options.rank_stabilized,
    )  # fmt: skip
    batches = options.steps or options.epochs * len(data)
    updates = max(batches // options.accumulate, 1)
    falling = CosineRate(options.rate, max(updates - options.warm_up, 1))
    rate = WarmUp(falling, options.warm_up) if options.warm_up else falling
    trainer = Trainer(
        model.train(), optimizer=AdamW(rate, weight_decay=options.weight_decay), metrics=(), seed=options.seed,
        gradient_accumulation_steps=options.accumulate,
    )  # fmt: skip
    if (output / _STATE).is_file():
        trainer.load(output / _STATE)
    checkpoints = PeriodicCheckpoint(output / _STATE, every_steps=options.save_every, frozen=False)
    left = batches - trainer.step
    if left > 0:
        amount: dict[str, Any] = (
            {"iterations": left} if options.steps else {"epochs": options.epochs - trainer.history.epoch}
        )
        trainer.fit(data, validation=validation, callbacks=[checkpoints, *callbacks], progress=progress, **amount)
    save_adapters(model, output)
    return trainer.history


def _prepare(options: FineTuning, output: Path, resume: bool) -> None:
    """Create the folder of a run, or check that it holds the run to resume."""
    known = read_json(output / _OPTIONS)
    mine = json.loads(json.dumps(asdict(options)))
    if known is None:
        if resume:
            raise CheckpointError(f"{output} holds no run to resume: leave out resume, or pass the folder of a run")
        output.mkdir(parents=True, exist_ok=True)
        partial = output / f"{_OPTIONS}.partial"
        partial.write_text(json.dumps(mine, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(output / _OPTIONS)
        return
    if not resume:
        raise CheckpointError(f"{output} holds a run already: pass resume to continue it, or another folder")
    if changed := [key for key, value in mine.items() if known.get(key) != value]:
        raise CheckpointError(
            f"{output} holds a run with {changed[0]}={shown(known.get(changed[0]))}, got {shown(mine[changed[0]])}: "
            "resume it with the same options, or pass another folder"
        )


def dataset_of(path: str, tokenizer: Tokenizer, options: FineTuning) -> TokenBatches:
    """Return the data set of a JSONL file, whose first line determines its kind."""
    where, first = next(records_of(path), (path, {}))
    kind = next((kind for kind in _KINDS if kind in first), None)
    if kind is None:
        raise GraphError(
            f"{where}: a line must have the entry 'messages', 'completion', or 'text', got "
            f"{', '.join(map(repr, first)) or 'nothing'}"
        )
    more: dict[str, Any] = {} if kind == "text" else {"truncate": options.truncate}
    used = {key for _, record in records_of(path) for key in record}
    return _KINDS[kind](
        path, tokenizer, batch_size=options.batch_size, max_length=options.max_length, pack=options.pack,
        seed=options.seed, ignore=[key for key in options.ignore if key in used], **more,
    )  # fmt: skip


def merge(model: Path, adapter: Path, output: Path, *, dtype: str | None = None, ignore: Sequence[str] = ()) -> None:
    """Write a checkpoint into whose weights an adapter is folded.

    Args:
        model: Folder of the checkpoint.
        adapter: Folder of the adapter.
        output: Folder to write.
        dtype: Element type of the weights, or None for the checkpoint's.
        ignore: Entries of config.json, and patterns of tensor names, to ignore.
    """
    loaded, tokenizer = load(model, dtype=dtype, ignore=ignore)
    load_adapters(loaded, adapter)
    merge_adapters(loaded)
    save(loaded, output, tokenizer)
    for name in ("chat_template.jinja",):
        if (model / name).is_file():
            shutil.copyfile(model / name, output / name)
