"""Metrics: means over a batch that the graph computes, and those that accumulate over an epoch's batches on the host.

The former are functions of a model's outputs and the labels; the latter are needed where a mean of batches' values is
not the value of all: precision, AUC, R².
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
