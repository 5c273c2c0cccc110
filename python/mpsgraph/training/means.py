"""Means over batches, weighted by batch so that they do not depend on how the data is divided into batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


class Means:
    """Running means of named values over batches.

    The mean of a loss of several outputs is the weighted sum of the means of its parts, each of which may count
    different labels.
    """

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, float] = {}
        self.shares: dict[str, float] = {}

    def add(
        self,
        values: Mapping[str, float],
        counts: Mapping[str, float],
        otherwise: float,
        shares: Mapping[str, float],
    ) -> None:
        """Add the values of a batch.

        Args:
            values: Means over the batch, keyed by name.
            counts: Number of items that each mean is taken over, keyed by name, such as labels that are not ignored.
            otherwise: Number of items for all other means: the number of samples.
            shares: Factors of the losses whose weighted sum is "loss", keyed by name; empty if "loss" is not such a
                sum.
        """
        self.shares = dict(shares)
        for name, value in values.items():
            if name == "loss" and shares:
                rest = value - sum(share * values[part] for part, share in shares.items())
                value = rest if math.isfinite(rest) else 0.0  # Some of the parts are not finite either.
            count = counts.get(name, otherwise)
            self.sums[name] = self.sums.get(name, 0.0) + (count * value if count else 0.0)
            self.counts[name] = self.counts.get(name, 0.0) + count

    def result(self) -> dict[str, float]:
        """Return the means, keyed by name. A mean over no items, for example if all labels are ignored, is 0."""
        found = {name: total / self.counts[name] if self.counts[name] else 0.0 for name, total in self.sums.items()}
        if self.shares and "loss" in found:
            found["loss"] += sum(share * found[part] for part, share in self.shares.items())
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return the sums and counts, for checkpoints."""
        return {"sums": self.sums, "counts": self.counts, "shares": self.shares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from sums and counts returned by `state_dict`."""
        self.sums, self.counts = dict(state["sums"]), dict(state["counts"])
        self.shares = dict(state["shares"])
