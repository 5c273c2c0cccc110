"""The loop over epochs and batches of Trainer.fit: recording, callbacks, validation, and resuming."""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from ..data.batches import Batches
from ..errors import CheckpointError, Error, GraphError
from ..nn.metrics import Accumulated
from .batch import Batch, WholeArrays, as_batch, as_source, split_off, with_class_weights
from .callbacks import Callback, ProgressBar
from .checkpoint_values import packed
from .engine import DeviceArray
from .evaluation import labels_of
from .history import History
from .means import Means
from .roles import Trains
from .step import Built
from .step_result import StepResult
from .structure import leaves


class Fit:
    """State of one call of Trainer.fit."""

    def __init__(
        self,
        trainer: Trains,
        data: Any,
        labels: Any,
        weights: Any,
        class_weights: Mapping[int, float] | np.ndarray | None,
        batch_size: int,
        validation: Any,
        validation_split: float | None,
    ) -> None:
        if validation_split:
            if validation is not None:
                raise GraphError("Trainer.fit: pass only one of validation and validation_split")
            part, rest = split_off(data, labels, weights, validation_split)
            (data, labels, weights), validation = part.parts, [rest] if rest.labels is None else rest.parts
        self.trainer, self.validation, self.class_weights = trainer, validation, class_weights
        self.state, self.builder = trainer.state, trainer.builder
        source = as_source(
            data, labels, weights, batch_size, shuffle=True, seed=self.state.seed, converted=self.builder.converted
        )
        self.partnership = self.state.partnership
        self.alike = self.partnership is None  # Whether all processes have the same number of batches.
        if self.partnership is not None:
            source = self.partnership.sharded(source)
            self.alike = self.partnership.options.shard and isinstance(source, (Batches, WholeArrays))
        self.order = self._divided(source)
        self.source = self._resumed(source, data)
        self.pending: deque[tuple[StepResult, Built, Batch]] = deque()
        # Steps of which callbacks have not been notified yet, keyed by step number.
        self.untold: deque[tuple[int, dict[str, float]]] = deque()
        self.told: list[Callback] = []
        self.means = Means()
        self.steps = 0
        self.within = False  # Whether an epoch has started and not ended.
        self.given = False  # Whether all batches of this epoch have been taken, even if some are not recorded yet.

    def run(
        self,
        epochs: int,
        iterations: int | None,
        steps_per_epoch: int | None,
        callbacks: Sequence[Callback],
        progress: bool,
        copy: bool | None,
    ) -> History:
        trainer = self.trainer
        if copy is None:
            copy = not isinstance(self.source, (Batches, WholeArrays, list, tuple))
        length = steps_per_epoch or (len(self.source) if isinstance(self.source, Sized) else None)
        total = iterations or (length * epochs if length else None)
        bar = ProgressBar(total, epochs=None if iterations else epochs, steps=length)
        told = [*callbacks, bar] if progress else list(callbacks)
        engine, partnership = self.state.engine, self.partnership
        if not (engine is None or engine.process[0] == 0) or not (partnership is None or partnership.is_first):
            told = [callback for callback in told if not callback.first_process_only]
        self.told = sorted(told, key=lambda callback: callback.saves)
        trainer.stopped, self.state.fit = None, self
        try:
            for callback in self.told:
                callback.on_fit_begin(trainer)
            self._resume_callbacks()
            self._epochs(epochs, iterations, steps_per_epoch, copy)
            self._record(keep=0)
            self._report_accumulated()
        finally:
            with suppress(Error):  # Record steps in flight also when training is interrupted, for example by Ctrl-C.
                self._record(keep=0)
            for callback in self.told:
                callback.on_fit_end(trainer)
            # The trainer keeps this object for the state of the callbacks and of the epoch, so release the data.
            self.source = self.validation = ()
        return trainer.history

    def _report_accumulated(self) -> None:
        """Warn if the gradients of the fit's last batches have not been applied."""
        every = self.state.accumulation
        if left := self.trainer.step % every:
            warnings.warn(
                f"Trainer.fit: the gradients of the last {left} of {every} batches are accumulated but not applied; "
                f"the next update, which includes them, comes after {every - left} more: fit a multiple of "
                f"gradient_accumulation_steps={every} batches to use them all",
                stacklevel=4,
            )

    def _epochs(self, epochs: int, iterations: int | None, steps: int | None, copy: bool) -> None:
        trainer = self.trainer
        for begins, batch in self._schedule(epochs, iterations, steps):
            if begins is not None:
                if begins:
                    self._begin_epoch()
                else:
                    self.given = True
                    self._record(keep=0)
                    self._end_of_epoch()
                if trainer.stopped is not None:
                    return
                continue
            if self.class_weights is not None:
                batch = with_class_weights(batch, self.class_weights)
            engine = self.state.engine
            if engine is not None and engine.share.count > 1:
                whole = self.order is not None and self.order.is_whole
                batch = Batch(*engine.on_device(self.builder.converted(batch).parts, whole))
            result = trainer.train_step(*batch.parts, copy=copy)
            built = self.builder.last_built
            assert built is not None
            self.pending.append((result, built, batch))
            self._record(keep=self.state.steps.limit - 1)
            if trainer.stopped is not None:
                self._record(keep=0)
                return

    def _record(self, keep: int) -> None:
        while self.untold or len(self.pending) > keep:
            if not self.untold:
                self._take_in()
            step, values = self.untold.popleft()
            for callback in self.told:
                callback.on_step_end(self.trainer, step, values)

    def _take_in(self) -> None:
        """Wait for the oldest pending step, and add its values to the history and to the epoch's means."""
        result, built, batch = self.pending.popleft()
        values, history = result.values, self.trainer.history
        history.append(values)
        self.means.add(values, built.counts_in(result), len(batch), built.shares)
        self._accumulate(result, built, batch)
        self.steps += 1
        self.untold.append((len(history.loss), values))

    def _accumulate(self, result: StepResult, built: Built, batch: Batch) -> None:
        """Update the accumulated metrics with a step's outputs."""
        given = [part for part in built.parts if part.accumulated]
        if not given:
            return
        pairs = zip(leaves(built.labels), leaves(batch.labels), strict=True)
        arrays = {id(t): a.numpy() if isinstance(a, DeviceArray) else a for t, a in pairs}
        for part, output in zip(given, result.outputs[: len(given)], strict=True):
            for metric in part.accumulated.values():
                if self.steps == 0:
                    metric.reset()
                metric.update(output.numpy(), labels_of(part, arrays))

    def _begin_epoch(self) -> None:
        """Start an epoch, with the saved sums and metrics if the loaded checkpoint was saved within this epoch."""
        trainer, epoch = self.trainer, self.state.resumed.pop("epoch", None)
        self.means, self.steps, self.given = Means(), 0, False
        if epoch is not None:
            self.means.load_state_dict(epoch["means"])
            self.steps, self.given = epoch["steps"], epoch["given"]
        self.within = True
        for metric, state in zip(self._metrics(), epoch["metrics"] if epoch else (), strict=False):
            vars(metric).update(state)
        for callback in self.told:
            callback.on_epoch_begin(trainer, trainer.history.epoch)

    def _metrics(self) -> list[Accumulated]:
        """Return the accumulated metrics of the trainer's steps without duplicates."""
        parts = [part for built in self.builder.all_built() for part in built.parts]
        return list({id(m): m for part in parts for m in part.accumulated.values()}.values())

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the fit for a checkpoint: the callbacks' states and the progress of the current epoch.

        Waits for all pending steps first.
        """
        while self.pending:
            self._take_in()
        order = self.state.data
        given = self.given or (order is not None and order.position >= len(order))
        metrics = [_kept(metric) for metric in self._metrics()]
        epoch = {"means": self.means.state_dict(), "steps": self.steps, "given": given, "metrics": metrics}
        told = [{"kind": type(c).__name__, "state": c.state_dict()} for c in self.told]
        return {"callbacks": [c for c in told if c["state"]], "epoch": epoch if self.within else None}

    def _resume_callbacks(self) -> None:
        """Restore the callbacks' states from a checkpoint. Callbacks of the same class are matched in order."""
        states = self.state.resumed.pop("callbacks", [])
        for callback in self.told:
            for i, described in enumerate(states):
                if described["kind"] == type(callback).__name__:
                    callback.load_state_dict(states.pop(i)["state"])
                    break

    def _end_of_epoch(self) -> None:
        trainer = self.trainer
        values = self.means.result()
        built = self.builder.last_built
        for part in built.parts if built is not None else ():
            before = f"{part.name}_" if part.name else ""
            values |= {before + name: metric.result() for name, metric in part.accumulated.items()}
        if self.validation is not None:
            with self.state.averages_in_place() if self.state.has_averages else nullcontext():
                found = trainer.evaluate(self.validation)
            trainer.history.append_validation(trainer.step, found)
            values |= {f"val_{name}": value for name, value in found.items()}
        epoch = trainer.history.epoch
        trainer.history.append_epoch(values)
        self.within = False
        for callback in self.told:
            callback.on_epoch_end(trainer, epoch, values)

    def _schedule(self, epochs: int, iterations: int | None, steps: int | None) -> Iterator[tuple[bool | None, Any]]:
        """Yield the events of a fit in order.

        An event is (True, None) at the start of an epoch, (None, batch) for each step, and (False, None) at the end of
        an epoch.
        """
        made = 0
        batches = iter(()) if steps is None else iter(self.source)
        for _ in range(epochs) if iterations is None else itertools.count():
            before = made
            yield True, None
            if steps is None:
                batches = iter(()) if self.given else iter(self.source)
            else:
                batches, own = self._more(batches, steps)
            mine = iter(batches if steps is None else own)
            for batch in mine if self.alike or self.partnership is None else self.partnership.while_all_have(mine):
                yield None, as_batch(batch)
                made += 1
                if made == iterations:
                    break
            if made == before and not self.steps:
                raise GraphError(
                    "Trainer.fit: data contains no more batches: pass data that can be iterated again, such as "
                    "mg.data.batches(...)"
                )
            yield False, None
            if made == iterations:
                return

    def _more(self, batches: Iterator[Any], steps: int) -> tuple[Iterator[Any], list[Any] | Iterator[Any]]:
        """Return two iterators: one over the data, and one over the batches of an epoch with a fixed number of steps.

        When the data is exhausted within the epoch, it is iterated again.
        """

        def own() -> Iterator[Any]:
            nonlocal batches
            given = self.steps  # The count starts above 0 in an epoch resumed from a checkpoint.
            while given < steps:
                before = given
                for batch in batches:
                    given += 1
                    yield batch
                    if given == steps:
                        return
                batches = iter(self.source)
                if given == before:
                    first = next(batches, None)
                    if first is None:
                        return
                    batches = itertools.chain([first], batches)

        return batches, own()

    def _divided(self, source: Iterable[Any]) -> Batches | None:
        """Divide batches if several processes pass shares of each batch to an engine, and return their order.

        All processes return None for an iterable of shares, and without an engine of several processes.
        """
        engine = self.state.engine
        share = None if engine is None else engine.share
        order = source.batches if isinstance(source, WholeArrays) else source
        if share is None or share.count == 1 or not isinstance(order, Batches):
            return None
        return order.divide(share.index, share.count, share.parts)

    def _resumed(self, source: Iterable[Any], data: Any) -> Iterable[Any]:
        """Return the source of batches, positioned where the loaded checkpoint was saved."""
        state = self.state
        order = source.batches if isinstance(source, WholeArrays) else source
        if isinstance(order, Batches):
            if order is not data and state.data is not None and state.data.fits(order):
                # The data is in the same order as in the previous fit, so continue that order instead of repeating it.
                order.load_state_dict(state.data.state_dict())
            if state.data_position is not None:
                order.load_state_dict(state.data_position)
                state.data_position = None
            state.data = order
        else:
            state.resumed.pop("epoch", None)  # Other data cannot be resumed, so it and the epoch start over.
        return source


def _kept(metric: Accumulated) -> dict[str, Any]:
    """Return the attributes of a metric that a checkpoint can store, including all that it has accumulated."""
    kept = {}
    for name, value in vars(metric).items():
        with suppress(CheckpointError):
            packed(value, {}, name)
            kept[name] = value
    return kept
