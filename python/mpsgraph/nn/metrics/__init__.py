"""Metrics: batch means computed in the graph, and metrics accumulated on the host over the batches of an epoch.

Batch means are functions of a model's outputs and the labels. Accumulated metrics are for values that are not the mean
of their batch values, such as precision, AUC, and R².
"""

from .accumulated import Accumulated
from .batch_means import (
    METRICS,
    Metric,
    accuracy,
    binary_accuracy,
    metric_named,
)
from .classification import (
    F1,
    Accuracy,
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
]
