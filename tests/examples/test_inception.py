"""Test examples/inception.py: logits equal those of Keras's network, and a short run lowers the loss."""

import json
import re

import inception
import numpy as np
from data import make_inception as golden
from mpsgraph import nngraph


def test_inception_logits_match_keras():
    net = inception.Inception(weights=golden.weights, norms=golden.norms)
    stored = json.loads(golden.STORED.read_text())
    assert net.count == stored["convolutions"] == 94
    logits = nngraph.NNGraph("cpu", net.logits)(golden.images()).numpy().reshape(2, -1)
    expected = np.array(stored["logits"])
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)


def test_short_training_run_lowers_the_loss(tmp_path, capsys):
    inception.main(["--steps", "50", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "inception.png").read_bytes().startswith(b"\x89PNG") and "695 filters" in printed
    first, last = re.search(r"Loss +([\d.]+) at first, ([\d.]+)", printed).groups()
    assert float(last) < 0.7 * float(first)
