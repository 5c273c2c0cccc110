"""Write scikit_learn.json: metrics of random outputs, computed with scikit-learn 1.9.1. Run: python make.py"""

import json
from pathlib import Path

import numpy as np
from sklearn import metrics as m

rng = np.random.default_rng(7)
logits = rng.normal(size=(200, 4)).astype(np.float32)
labels = rng.integers(0, 4, 200).astype(np.int32)
logits[np.arange(200), labels] += 0.8
scores = np.round(rng.uniform(size=300), 2).astype(np.float32)
binary = (scores + rng.normal(0, 0.4, 300) > 0.5).astype(np.int32)
numbers = rng.normal(3, 2, size=250).astype(np.float32)
found = (numbers + rng.normal(0, 0.7, 250)).astype(np.float32)

taken, positive = logits.argmax(1), scores > 0.5
kinds = {"Precision": m.precision_score, "Recall": m.recall_score, "F1": m.f1_score, "IoU": m.jaccard_score}
result = {"accuracy": m.accuracy_score(labels, taken)}
for name, kind in kinds.items():
    for average in ("macro", "micro", "weighted", None):
        result[f"{name}_{average or 'none'}"] = np.asarray(kind(labels, taken, average=average)).tolist()
    result[f"binary_{name}"] = kind(binary, positive)
probabilities = np.exp(logits.astype(float))
probabilities /= probabilities.sum(1, keepdims=True)
result |= {
    "mean_iou": m.jaccard_score(labels, taken, average="macro"),
    "confusion": m.confusion_matrix(labels, taken).tolist(),
    "top_2": m.top_k_accuracy_score(labels, logits, k=2),
    "perplexity": float(np.exp(m.log_loss(labels, probabilities))),
    "auc": m.roc_auc_score(binary, scores),
    "average_precision": m.average_precision_score(binary, scores),
    "mae": m.mean_absolute_error(numbers, found),
    "rmse": m.root_mean_squared_error(numbers, found),
    "r2": m.r2_score(numbers, found),
}
Path(__file__).with_name("scikit_learn.json").write_text(json.dumps(result, indent=1, default=float) + "\n")
