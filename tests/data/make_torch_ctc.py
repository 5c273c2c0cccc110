"""Write torch_ctc.npz: PyTorch 2.13's CTC losses and their gradients in float64, for tests/nn/test_ctc.py.

Run with torch and numpy: python tests/data/make_torch_ctc.py
"""

from pathlib import Path

import numpy as np
import torch

rng = np.random.default_rng(0)
ROWS, STEPS, CLASSES, LABELS = 7, 12, 5, 5
logits = rng.normal(size=(ROWS, STEPS, CLASSES)) * 2
labels = rng.integers(1, CLASSES, (ROWS, LABELS))
labels[1], labels[4] = [2, 2, 2, 3, 3], 2
input_lengths, label_lengths = [12, 12, 7, 3, 12, 0, 9], [5, 5, 3, 4, 5, 0, 0]


def found(named, **options):
    x = torch.tensor(logits, requires_grad=True)
    odds = x.log_softmax(-1).transpose(0, 1)
    loss = torch.nn.functional.ctc_loss(odds, torch.tensor(named), input_lengths, label_lengths, **options)
    loss.sum().backward()
    return loss.detach().numpy(), x.grad.numpy()


losses, _ = found(labels, reduction="none")
zeroed, d_zeroed = found(labels, reduction="none", zero_infinity=True)
mean, d_mean = found(labels, zero_infinity=True)
last_blank, d_last_blank = found(labels - 1, blank=4, reduction="sum", zero_infinity=True)
np.savez(
    Path(__file__).with_name("torch_ctc.npz"),
    logits=logits, labels=labels, input_lengths=input_lengths, label_lengths=label_lengths, losses=losses,
    zeroed=zeroed, d_zeroed=d_zeroed, mean=mean, d_mean=d_mean, last_blank=last_blank, d_last_blank=d_last_blank,
)  # fmt: skip
