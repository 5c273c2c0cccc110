"""The objective: what a step minimizes and reports, for one output or a structure of outputs.

Each output has a loss, a weight, and metrics. The total loss is the weighted sum plus the losses added by modules.
If there are several outputs, results are named after them: "left_loss" and "left_accuracy" for the output "left".
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core import Tensor, float32, float64
from .._display import shown
from .._tracking import Tracked
from ..errors import GraphError, ShapeError
from ..nn.losses import LOSSES, Loss, loss_named
from ..nn.losses.reduction import as_dtype_of, class_numbers, mean_of_all, reduced, sum_of_all
from ..nn.metrics import Accumulated, Metric, metric_named, metric_or_accumulated
from ..nn.metrics.batch_means import (
    class_weights_of,
    default_metrics,
    ignored_label,
    names_class_indices,
    names_classes,
)
from ..nn.parts import graph_of
from .structure import named_leaves

Losses = str | Loss | Mapping[str, Any] | Sequence[Any]
Metrics = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Term:
    """One number that a step reports: the total loss, the loss of one output, or a metric.

    Attributes:
        name: Name of the number.
        value: Tensor of rank 0.
        counted: Number of items that the mean `value` is taken over, if these are not the samples: the number of labels
            that are not ignored or, for losses with class weights, the sum of the labels' weights.
        share: Weight in the total loss, or None if the number is not a loss.
    """

    name: str
    value: Tensor
    counted: Tensor | None = None
    share: float | None = None


@dataclass(frozen=True)
class Part:
    """One output of a model that has a loss, with its labels and metrics.

    The name is empty if the model has a single output.
    """

    name: str
    output: Any
    labels: Any
    loss: Loss
    share: float
    metrics: dict[str, Metric]
    accumulated: dict[str, Accumulated]
    given: Any = None
    """Labels as passed in the batch; `labels` may have another shape."""


class Objective(Tracked):
    """The losses, loss weights, and metrics that a trainer was created with. Raises GraphError for unknown names."""

    def __init__(self, loss: Losses, loss_weights: Any, metrics: Metrics | None) -> None:
        self.loss: Any = _named(loss)
        self.loss_weights, self.asked = loss_weights, metrics
        single = callable(self.loss)
        # Metrics that apply to every output; empty if metrics were passed separately for each output.
        self.metrics: dict[str, Metric] = {}
        self.accumulated: dict[str, Accumulated] = {}
        if single and not isinstance(metrics, Mapping):
            self.metrics, self.accumulated = _metrics(metrics, self.loss)
        self.by_labels = single and metrics is None and default_metrics(self.loss) is None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _named(value) if name == "loss" else value)

    def parts(self, outputs: Any, labels: Any) -> list[Part]:
        """Match losses and labels with outputs and return one part for each output that has a loss.

        Raise GraphError if they do not match.
        """
        found, given = dict(named_leaves(outputs)), dict(named_leaves(labels))
        if callable(self.loss):
            alone = not isinstance(outputs, (Mapping, tuple, list)) and not isinstance(labels, (Mapping, tuple, list))
            if alone or not _is_ours(self.loss):
                if labels is None and _is_ours(self.loss):
                    raise GraphError(
                        "the batch has no labels, which the loss needs: pass a pair of arrays (inputs, labels); for an "
                        "autoencoder, pass the inputs as labels"
                    )
                return [self._part("", outputs, labels, self.loss, self.asked)]
            losses = dict.fromkeys(found, self.loss)
        elif isinstance(self.loss, Mapping):
            losses = dict(self.loss)
            if unknown := [name for name in losses if name not in found]:
                raise GraphError(
                    f"loss has entries for {', '.join(unknown)}, but the outputs are "
                    f"{', '.join(found) or 'a single tensor'}"
                )
        else:
            if len(self.loss) != len(found):
                raise GraphError(
                    f"loss must have one entry for each output ({', '.join(found)}), or None for outputs without a "
                    f"loss, got {len(self.loss)} entries"
                )
            losses = dict(zip(found, self.loss, strict=True))
        losses = {name: loss_named(loss) for name, loss in losses.items() if loss is not None}
        if given.keys() >= losses.keys():
            targets = {name: given[name] for name in losses}
        elif len(given) == len(losses):
            targets = dict(zip(losses, given.values(), strict=True))
        else:
            raise GraphError(
                f"labels are needed for {', '.join(losses)}, but the batch has {', '.join(given) or 'none'}"
            )
        return [self._part(name, found[name], targets[name], loss, self._asked(name)) for name, loss in losses.items()]

    def _asked(self, name: str) -> Any:
        return self.asked.get(name, ()) if isinstance(self.asked, Mapping) else self.asked

    def _part(self, name: str, output: Any, labels: Any, loss: Loss, asked: Any) -> Part:
        metrics, accumulated = _metrics(asked, loss)
        given, (output, labels) = labels, _matched(output, labels, loss)
        alone = isinstance(output, Tensor) and isinstance(labels, Tensor)
        if asked is None and default_metrics(loss) is None and alone and names_classes(output, labels):
            metrics = dict([metric_named("accuracy")])
        return Part(name, output, labels, loss, self._share(name), metrics, accumulated, given)

    def _share(self, name: str) -> float:
        weights = self.loss_weights
        if weights is None:
            return 1.0
        if isinstance(weights, Mapping):
            return float(weights.get(name, 1.0))
        if isinstance(weights, (int, float)):
            return float(weights)
        names = list(self.loss) if isinstance(self.loss, Mapping) else None
        place = names.index(name) if names else int(name or 0)
        if not 0 <= place < len(weights):
            raise GraphError(
                f"loss_weights must have a number for each output, got {len(weights)} numbers, but none for '{name}'"
            )
        return float(weights[place])

    def terms(self, parts: list[Part], weights: Any, added: list[Tensor]) -> list[Term]:
        """Return the numbers to report: the total loss, each output's loss if there are several, and the metrics."""
        by_name = dict(named_leaves(weights))
        several = len(parts) > 1
        of_losses: list[Term] = []
        others: list[Term] = []
        for place, part in enumerate(parts):
            before = f"{part.name}_" if part.name else ""
            own = _weights_of(part, place, by_name, several)
            labels = _labels_counted(part)
            counted = _counted(part, labels)
            of_losses.append(Term(f"{before}loss", _loss(part, own, counted), counted, part.share))
            for name, metric in part.metrics.items():
                value = _rank_zero(f"{before}{name}", metric(_wide(part.output), part.labels))
                others.append(Term(f"{before}{name}", value, labels if ignored_label(metric) is not None else None))
        if not several and not added and of_losses[0].share == 1.0:
            only = of_losses[0]
            return [Term("loss", only.value, only.counted, 1.0), *others]
        wide = float64 if any(t.dtype == float64 for t in (*(t.value for t in of_losses), *added)) else float32
        terms = [graph_of(t.value).cast(t.value, wide) * (t.share or 0.0) for t in of_losses]
        terms += [graph_of(t).reshape(graph_of(t).cast(t, wide), ()) for t in added]
        total = functools.reduce(lambda a, b: a + b, terms)
        shown_losses = of_losses if several else []
        counted = of_losses[0].counted if not several else None
        result = [Term("loss", total, counted), *shown_losses, *others]
        names = [term.name for term in result]
        if len(set(names)) < len(names):
            raise GraphError(f"results of a step must have different names, got {', '.join(names)}")
        return result


def _named(loss: Any) -> Any:
    if isinstance(loss, Mapping):
        return {name: None if each is None else loss_named(each) for name, each in loss.items()}
    if isinstance(loss, (list, tuple)):
        return [None if each is None else loss_named(each) for each in loss]
    return loss_named(loss)


def _metrics(asked: Any, loss: Loss) -> tuple[dict[str, Metric], dict[str, Accumulated]]:
    wanted = (default_metrics(loss) or ()) if asked is None else asked
    wanted = [wanted] if isinstance(wanted, (str, Accumulated)) or callable(wanted) else list(wanted)
    wanted = [metric_or_accumulated(metric, loss) if isinstance(metric, str) else metric for metric in wanted]
    accumulated = {metric.name: metric for metric in wanted if isinstance(metric, Accumulated)}
    metrics = dict(metric_named(m, loss) for m in wanted if not isinstance(m, Accumulated))
    names = [*metrics, *accumulated]
    if len(names) < len(wanted) or {"loss", "loss_scale", "skipped"} & set(names):
        raise GraphError(
            f"metrics must have different names, other than loss, loss_scale and skipped, got {', '.join(names)}"
        )
    return metrics, accumulated


def _matched(output: Any, labels: Any, loss: Any) -> tuple[Any, Any]:
    """Return labels in the shape that a loss expects, if they differ from it only by an axis of size 1 at the end.

    Labels (n,) become (n, 1) for outputs (n, 1), and labels (n, 1) become (n,) for outputs (n,) and for class indices.
    """
    if not (_is_ours(loss) and isinstance(output, Tensor) and isinstance(labels, Tensor)):
        return output, labels
    if output.shape is None or labels.shape is None or not output.shape or not labels.shape:
        return output, labels
    g, ranks = graph_of(labels), (len(output.shape), len(labels.shape))
    classes = names_class_indices(loss) and labels.dtype.is_integer and output.shape[-1] != 1
    if classes and ranks[0] == ranks[1] and labels.shape[-1] == 1:
        return output, g.squeeze(labels, -1)
    if names_class_indices(loss):
        return output, labels
    if ranks[0] == ranks[1] + 1 and output.shape[-1] == 1:
        return output, g.expand_dims(labels, -1)
    if ranks[1] == ranks[0] + 1 and labels.shape[-1] == 1:
        return output, g.squeeze(labels, -1)
    return output, labels


def _is_ours(loss: Any) -> bool:
    """Return whether a loss belongs to this package, whose losses take a single output."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    return loss in LOSSES.values()


def _wide(outputs: Any) -> Any:
    if isinstance(outputs, Tensor) and outputs.dtype.is_float and outputs.dtype.itemsize == 2:
        return graph_of(outputs).cast(outputs, float32)
    return outputs


def _rank_zero(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.shape not in ((), None):
        got = f"shape {value.shape}" if isinstance(value, Tensor) else shown(value)
        raise GraphError(f"{name} must be a tensor of rank 0, got {got}")
    return value


def shares_of(terms: Sequence[Term]) -> dict[str, float]:
    """Return the factors of the losses whose weighted sum is the total loss, keyed by name.

    Means over batches need these factors if the losses count different labels; otherwise, the result is empty.
    """
    parts = [term for term in terms[1:] if term.share is not None]
    if not terms or terms[0].name != "loss" or all(term.counted is None for term in parts):
        return {}
    return {term.name: term.share for term in parts if term.share is not None}


def _labels_counted(part: Part) -> Tensor | None:
    """Return the number of labels of a batch that the loss does not ignore, or None if it ignores none."""
    ignored = ignored_label(part.loss)
    if ignored is None or not isinstance(part.labels, Tensor):
        return None
    g = graph_of(part.labels)
    return sum_of_all(g.cast(g.not_equal(part.labels, ignored), float32))


def _counted(part: Part, counted_labels: Tensor | None) -> Tensor | None:
    """Return the divisor of a batch's mean loss, or None if the divisor is proportional to the number of samples."""
    weights, labels, output = class_weights_of(part.loss), part.labels, part.output
    if weights is None or not isinstance(labels, Tensor) or not isinstance(output, Tensor):
        return counted_labels
    if labels.shape is None or output.shape is None or len(labels.shape) != len(output.shape) - 1:
        return counted_labels  # For labels other than indices, each loss includes its class weight.
    g, ignored = graph_of(labels), ignored_label(part.loss)
    factors = as_dtype_of(weights, output)
    numbers = class_numbers(labels, (factors.shape or (-1,))[0], ignored)
    used = g.gather(factors if factors.dtype == float64 else g.cast(factors, float32), numbers)
    if ignored is not None:
        used = g.select(g.equal(labels, ignored), g.constant(0.0, dtype=used.dtype), used)
    return sum_of_all(used)


def _weights_of(part: Part, place: int, by_name: Mapping[str, Tensor], several: bool) -> Tensor | None:
    """Return the sample weights of one output, passed under its name or index, or passed for all outputs."""
    if not by_name:
        return None
    if "" in by_name:
        return by_name[""]
    return by_name.get(part.name, by_name.get(str(place)))


def _loss(part: Part, weights: Tensor | None, counted: Tensor | None) -> Tensor:
    """Return the mean loss.

    With sample weights, the sum of the weighted losses is divided by the number of losses, as in Keras, not by the sum
    of the weights. Ignored labels are not counted.
    """
    name = f"{part.name}_loss" if part.name else "loss"
    if weights is None:
        return _rank_zero(name, part.loss(part.output, part.labels))
    inner: Any = part.loss
    while isinstance(inner, functools.partial):
        inner = inner.func
    if "reduction" not in inspect.signature(inner).parameters:
        raise GraphError(
            f"{name}: sample weights need a loss with the argument `reduction`, which returns the loss of each sample: "
            "use a loss of mpsgraph.nn.losses"
        )
    each = part.loss(part.output, part.labels, reduction="none")  # type: ignore[call-arg]
    g = graph_of(each)
    if each.shape is None or weights.shape is None or len(weights.shape) > len(each.shape):
        raise ShapeError(
            f"{name}: sample weights must match the first axes of the losses, got weights of shape {weights.shape} and "
            f"losses of shape {each.shape}"
        )
    factor = weights if weights.dtype == each.dtype else g.cast(weights, each.dtype)
    if missing := len(each.shape) - len(weights.shape):
        factor = g.expand_dims(factor, list(range(len(weights.shape), len(weights.shape) + missing)))
    if "weights" in inspect.signature(inner).parameters:
        weighted = part.loss(part.output, part.labels, weights=factor, reduction="none")  # type: ignore[call-arg]
    else:
        weighted = reduced(each, "none", factor)
    if counted is None:
        return mean_of_all(weighted)
    return g.division_no_nan(sum_of_all(weighted), as_dtype_of(counted, weighted))
