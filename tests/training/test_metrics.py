"""Compare accumulating metrics with results of scikit-learn 1.9.1, which data/metrics/make.py writes."""

import json
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.nn import metrics

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "metrics" / "scikit_learn.json").read_text())


def drawn():
    """Return the same random data as the program that computed the expected values."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 4)).astype(np.float32)
    labels = rng.integers(0, 4, 200).astype(np.int32)
    logits[np.arange(200), labels] += 0.8
    scores = np.round(rng.uniform(size=300), 2).astype(np.float32)  # Scores are rounded so that some are tied.
    binary = (scores + rng.normal(0, 0.4, 300) > 0.5).astype(np.int32)
    numbers = rng.normal(3, 2, size=250).astype(np.float32)
    return logits, labels, scores, binary, numbers, (numbers + rng.normal(0, 0.7, 250)).astype(np.float32)


LOGITS, LABELS, SCORES, BINARY, TRUE, FOUND = drawn()
OF_CLASSES = {
    "accuracy": metrics.Accuracy(),
    **{f"{kind.__name__}_{average}": kind(average)
       for kind in (metrics.Precision, metrics.Recall, metrics.F1, metrics.IoU)
       for average in ("macro", "micro", "weighted", "none")},
    "mean_iou": metrics.MeanIoU(),
    "confusion": metrics.ConfusionMatrix(),
    "top_2": metrics.TopKAccuracy(2),
    "perplexity": metrics.Perplexity(),
}  # fmt: skip
OF_SCORES = {
    "auc": metrics.AUC(),
    "average_precision": metrics.AveragePrecision(),
    **{f"binary_{kind.__name__}": kind() for kind in (metrics.Precision, metrics.Recall, metrics.F1, metrics.IoU)},
}
OF_NUMBERS = {"mae": metrics.MAE(), "rmse": metrics.RMSE(), "r2": metrics.R2()}
ALL = [(n, m, LOGITS, LABELS) for n, m in OF_CLASSES.items()]
ALL += [(n, m, SCORES, BINARY) for n, m in OF_SCORES.items()] + [(n, m, FOUND, TRUE) for n, m in OF_NUMBERS.items()]


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize(("name", "metric", "outputs", "labels"), ALL, ids=[case[0] for case in ALL])
def test_metrics_match_scikit_learn(name, metric, outputs, labels, batch):
    metric.reset()
    for start in range(0, len(outputs), batch):
        metric.update(outputs[start : start + batch], labels[start : start + batch])
    np.testing.assert_allclose(metric.result(), GOLDEN[name], rtol=1e-6)


def test_metrics_without_updates_or_with_invalid_data_raise():
    for metric in (*OF_CLASSES.values(), *OF_NUMBERS.values()):
        metric.reset()
        if not isinstance(metric, metrics.ConfusionMatrix):
            with pytest.raises(mg.GraphError, match="there is no result yet"):
                metric.result()
    with pytest.raises(mg.ShapeError):
        metrics.MAE().update(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(mg.OutOfRangeError):
        metrics.Accuracy().update(np.zeros((1, 3)), np.array([-1]))
    several = metrics.Precision()
    several.update(np.eye(3), np.arange(3))
    with pytest.raises(mg.GraphError, match="pass average="):
        several.result()


def test_trainer_computes_metrics_over_whole_epochs():
    trainer = mg.Trainer(mg.nn.Linear(4), metrics=["accuracy", metrics.F1("macro"), metrics.Accuracy(name="exact")])
    history = trainer.fit(LOGITS, LABELS, epochs=2, batch_size=48, validation=(LOGITS, LABELS), progress=False)
    assert {"f1", "exact", "val_f1", "val_exact"} <= history.epochs[1].keys()
    found = trainer.evaluate(LOGITS, LABELS)
    assert found["exact"] == pytest.approx(found["accuracy"]) and found["f1"] == history.epochs[1]["val_f1"]
    f1 = metrics.F1("macro")
    f1.update(trainer.predict(LOGITS), LABELS)
    assert f1.result() == pytest.approx(found["f1"])
