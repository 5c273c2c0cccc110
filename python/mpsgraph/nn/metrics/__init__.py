"""Metrics: batch means computed in the graph, and metrics accumulated on the host over the batches of an epoch.

Batch means are functions of a model's outputs and the labels. Accumulated metrics are for values that are not the mean
of their batch values, such as precision, AUC, and R².
"""

import re
from collections.abc import Callable

from ..._checks import checked
from ..._display import shown, suggested
from ...errors import GraphError
from ..losses import Loss
from .accumulated import Accumulated
from .batch_means import (
    METRICS,
    Metric,
    accuracy,
    binary_accuracy,
    ignored_label,
    known_name,
    metric_named,
    output_threshold,
    plain,
)
from .classification import (
    F1,
    Accuracy,
    Confusion,
    ConfusionMatrix,
    IoU,
    MeanIoU,
    Perplexity,
    Precision,
    Recall,
    TopKAccuracy,
)
from .ranking import AUC, AveragePrecision
from .regression import MAE, R2, RMSE

_ACCUMULATED: dict[str, Callable[[], Accumulated]] = {
    "auc": AUC,
    "average_precision": AveragePrecision,
    "f1": F1,
    "f1_score": F1,
    "iou": IoU,
    "mean_iou": MeanIoU,
    "perplexity": Perplexity,
    "precision": Precision,
    "r2": R2,
    "r2_score": R2,
    "recall": Recall,
    "rmse": RMSE,
    "root_mean_squared_error": RMSE,
    "sparse_top_k_categorical_accuracy": TopKAccuracy,
    "top_k_accuracy": TopKAccuracy,
    "top_k_categorical_accuracy": TopKAccuracy,
}
"""Constructors of accumulated metrics, keyed by our and Keras's names; top_<k>_accuracy is one, too."""


@checked
def metric_or_accumulated(metric: str, loss: Loss | None = None) -> str | Accumulated:
    """Return the accumulated metric with a name, or the name of a metric in `METRICS` as it is.

    Args:
        metric: Our name or Keras's, such as "auc" or "top_5_accuracy". Upper case and underscores do not matter.
        loss: Loss that determines the threshold and the ignored label, for metrics that have them. Defaults to none.

    Returns:
        A new accumulated metric, which is reported under the given name, or the name.

    Raises:
        GraphError: If there is no metric with the name; the message lists all names.

    Example:
        >>> mg.nn.metrics.metric_or_accumulated("top_5_accuracy").k
        5
    """
    if known_name(metric) is not None:
        return metric
    if found := re.fullmatch(r"top_?(\d+)_?(categorical)?_?accuracy", metric.lower()):
        return TopKAccuracy(int(found[1]), metric, None if loss is None else ignored_label(loss))
    for name, make in _ACCUMULATED.items():
        if plain(name) == plain(metric):
            made = make()
            made.name = metric
            if isinstance(made, Confusion) and loss is not None:
                made.threshold = output_threshold(loss, made.threshold)
            if isinstance(made, (Confusion, Perplexity, TopKAccuracy)) and loss is not None:
                made.ignore_index = ignored_label(loss)
            return made
    names = (*METRICS, *_ACCUMULATED, "top_5_accuracy")
    raise GraphError(
        f"there is no metric named {shown(metric)}: {suggested(metric, (*names, 'mae', 'mse', 'acc'))}pass one of "
        f"{', '.join(names)}, an accumulated metric such as nn.metrics.AUC(), or a function (outputs, labels)"
    )


__all__ = [
    "AUC",
    "F1",
    "MAE",
    "METRICS",
    "R2",
    "RMSE",
    "Accumulated",
    "Accuracy",
    "AveragePrecision",
    "ConfusionMatrix",
    "IoU",
    "MeanIoU",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "TopKAccuracy",
    "accuracy",
    "binary_accuracy",
    "metric_named",
    "metric_or_accumulated",
]
