"""Compare accumulating metrics with results of scikit-learn 1.9.1, which data/metrics/make.py writes."""

import functools
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


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float32])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_one_hot_labels_of_any_dtype_are_class_indices(name, dtype, batch):
    metric, labels = OF_CLASSES[name], np.eye(4, dtype=dtype)[LABELS]
    metric.reset()
    for start in range(0, len(LOGITS), batch):
        metric.update(LOGITS[start : start + batch], labels[start : start + batch])
    np.testing.assert_allclose(metric.result(), GOLDEN[name], rtol=1e-6)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_label_rows_with_any_number_of_ones_are_treated_as_multilabel(dtype, order):
    """The first batches may look like one-hot vectors; the result does not depend on the order."""
    labels = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype)
    scores = np.float32([[0.9, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.6]])
    for metric, wanted in ((metrics.F1(), 2 / 3), (metrics.Accuracy(), 7 / 9), (metrics.Recall(), 2 / 3)):
        for row in order:
            metric.update(scores[row : row + 1], labels[row : row + 1])
        assert metric.result() == pytest.approx(wanted)


def test_two_columns_of_one_hot_labels_are_ranked_as_two_classes():
    outputs = np.stack([-SCORES, SCORES], 1)
    for name in ("auc", "average_precision"):
        metric = OF_SCORES[name]
        metric.reset()
        metric.update(outputs[:100], np.eye(2, dtype=int)[BINARY[:100]])
        metric.update(outputs[100:], BINARY[100:])
        assert metric.result() == pytest.approx(GOLDEN[name])


def test_ignored_labels_of_binary_scores_are_not_counted():
    accuracy = metrics.Accuracy(ignore_index=-100)
    accuracy.update(np.float32([[0.9, 0.2], [0.8, 0.1]]), np.int32([[1, -100], [0, 0]]))
    assert accuracy.result() == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", [*OF_CLASSES, *OF_SCORES, *OF_NUMBERS])
def test_nan_outputs_never_count_as_correct(name):
    """Metrics of classes count samples with NaN outputs as wrong. Metrics of scores and numbers are NaN."""
    metric = (OF_CLASSES | OF_SCORES | OF_NUMBERS)[name]
    metric.reset()
    outputs = np.full((4, 3) if name in OF_CLASSES else 4, np.nan, np.float32)
    outputs[1] = 1.0
    metric.update(outputs, np.int32([0, 1, 1, 0]))
    found = metric.result()
    if name == "confusion":
        assert found.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]] and metric.missed.tolist() == [2, 1, 0]
    elif name in ("auc", "average_precision", "mae", "rmse", "r2", "perplexity"):
        assert np.isnan(found)
    else:
        right = {"binary_Precision": 1.0, "binary_Recall": 0.5, "binary_F1": 2 / 3, "binary_IoU": 0.5}
        wanted = 0.25 if name == "top_2" else right.get(name, 0.0)
        np.testing.assert_allclose(found, np.full(np.shape(found), wanted))


@pytest.mark.parametrize("name", [*OF_CLASSES, *OF_SCORES, *OF_NUMBERS])
def test_nan_labels_never_count_as_correct(name):
    """Metrics of classes count samples with NaN labels as wrong. Metrics of scores and numbers are NaN."""
    metric = (OF_CLASSES | OF_SCORES | OF_NUMBERS)[name]
    for update in range(2 if name in OF_CLASSES else 1):
        metric.reset()
        outputs, labels = np.float32([0.2, 0.9, 0.8, 0.1]), np.float32([np.nan, 1, np.nan, 0])
        if name in OF_CLASSES:
            outputs, labels = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], np.float32([0, 1, np.nan, 0])
            if update:
                labels = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
                labels[2] = np.nan
        metric.update(outputs[:1], labels[:1])
        metric.update(outputs[1:], labels[1:])
        found = metric.result()
        if name == "confusion":
            assert found.tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 0]] and metric.unlabelled.tolist() == [0, 0, 1]
        elif name in ("auc", "average_precision", "mae", "rmse", "r2", "perplexity"):
            assert np.isnan(found)
        else:  # Sample 2 is a false positive of class 2, or of class 1 of two.
            one_wrong = {"Precision": 3 / 4, "Recall": 1.0, "F1": 6 / 7, "IoU": 3 / 4}
            kind, _, average = name.removeprefix("binary_").partition("_")
            each = np.float64([1, 1, 0])
            wanted = {"": 2 / 3 if kind == "F1" else 1 / 2 if kind != "Recall" else 1, "none": each, "weighted": 1}
            wanted |= {"macro": 2 / 3, "micro": one_wrong.get(kind)}
            right = {"accuracy": 3 / 4, "top_2": 3 / 4, "mean_iou": 2 / 3}
            np.testing.assert_allclose(found, right.get(name, wanted.get(average)))


def test_missing_labels_of_independent_classes_are_not_one_hot():
    """The second row has two ones, so labels are independent, although others are NaN."""
    accuracy = metrics.Accuracy()
    accuracy.update(np.float32([[0.9, 0.2, 0.1], [0.8, 0.7, 0.1]]), np.float32([[1, np.nan, 0], [1, 1, np.nan]]))
    assert accuracy.result() == pytest.approx(4 / 6)


@pytest.mark.parametrize("name", ["accuracy", "F1_macro", "mean_iou", "confusion", "top_2", "perplexity"])
def test_labels_that_are_not_class_indices_raise(name):
    for labels in ([0.5, 1.0], [np.inf, 0], [-1, 0]):
        OF_CLASSES[name].reset()
        with pytest.raises(mg.OutOfRangeError, match="labels must be class indices"):
            OF_CLASSES[name].update(np.eye(2, 3), np.array(labels))


def test_top_k_accuracy_ignores_labels_and_rejects_multilabel():
    top = metrics.TopKAccuracy(1, ignore_index=-1)
    top.update(np.float32([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9]]), np.int32([-1, 0, 1]))
    assert top.result() == 0.5
    for labels in ([2, 0], [-2, 0]):
        with pytest.raises(mg.OutOfRangeError, match="class indices from 0 to 1"):
            top.update(np.eye(2), np.array(labels))
    with pytest.raises(mg.ShapeError, match="any number of ones"):
        top.update(np.eye(3), np.ones((3, 3), np.int32))


def test_ranking_metrics_treat_equal_infinite_scores_as_ties():
    """scikit-learn rejects infinite scores, so these replace them by the largest finite ones."""
    scores, labels = np.float32([-np.inf, -np.inf, np.inf, np.inf]), np.int32([0, 1, 0, 1])
    for metric, wanted in ((metrics.AUC(), 0.5), (metrics.AveragePrecision(), 0.5)):
        metric.update(scores, labels)
        assert metric.result() == wanted
        metric.reset()
        metric.update(scores[:0], labels[:0])
        with pytest.raises(mg.GraphError, match="there is no result yet"):
            metric.result()


def test_metrics_named_by_strings_use_threshold_and_ignored_label_of_the_loss():
    logits, labels = np.float32([[0.2], [0.4], [-1], [3]]), np.float32([[1], [1], [0], [1]])
    trainer = mg.Trainer(mg.nn.PReLU(), "binary_cross_entropy_with_logits", metrics=["f1", "recall", "accuracy"])
    assert trainer.evaluate(logits, labels)["f1"] == trainer.evaluate(logits, labels)["recall"] == 1
    logits, labels = np.float32([[9, 0, 0], [0, 9, 0], [0, 0, 9]]), np.int32([2, 1, 2])
    loss = functools.partial(mg.nn.losses.cross_entropy, ignore_index=1)
    names = ["accuracy", "mean_iou", "top_1_accuracy"]
    trainer = mg.Trainer(mg.nn.PReLU(), loss, metrics=names)
    found = trainer.evaluate(logits, labels)
    assert [found[name] for name in names] == pytest.approx([1 / 2, 1 / 4, 1 / 2])


@pytest.mark.both_devices
def test_accuracy_in_the_graph_counts_nan_labels_as_wrong():
    g = mg.Graph()
    outputs, labels = np.float32([[9, 0], [9, 0], [0, 9]]), np.float32([[np.nan, np.nan], [1, 0], [np.nan, 1]])
    accuracy = metrics.accuracy(g.constant(outputs), g.constant(labels))
    binary = metrics.binary_accuracy(g.constant(outputs), g.constant(labels))
    results = g.run({}, [accuracy, binary])
    assert results[accuracy].item() == pytest.approx(1 / 3) and results[binary].item() == 0.5


@pytest.mark.both_devices
def test_accuracy_in_the_graph_counts_nan_outputs_as_wrong():
    g = mg.Graph()
    outputs = g.constant([[1.0, np.nan], [np.nan, np.nan], [0.0, np.nan], [2.0, 1.0]])
    for labels in (np.int32([1, 0, 0, 0]), np.eye(2, dtype=np.int32)[[1, 0, 0, 0]]):
        assert g.run({}, metrics.accuracy(outputs, g.constant(labels))).item() == 0.25
