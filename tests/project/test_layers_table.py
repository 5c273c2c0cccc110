"""Check that docs/layers.md lists exactly the existing layers, losses, optimizers, and initializers."""

import inspect
import re
from pathlib import Path

import mpsgraph as mg
import pytest
from mpsgraph import nn

PAGE = (Path(__file__).parents[2] / "docs" / "layers.md").read_text()
SECTIONS = dict(re.findall(r"## [\w ,]+: `mpsgraph\.([\w.]+)`\n(.*?)(?=\n## |\Z)", PAGE, re.DOTALL))
HELPERS = {"LOSSES", "Loss", "loss_named", "mean_of_all", "reduced"}


INITIALISERS = {
    name
    for name, value in vars(nn.initialisers).items()
    if inspect.isclass(value) and value.__module__ == nn.initialisers.__name__
}
WANTED = {
    "nn": set(nn.__all__) - {"initialisers", "losses", "metrics"},
    "nn.losses": set(nn.losses.__all__) - HELPERS,
    "optim": set(mg.optim.__all__) - {"Schedule", "optimizer_named"},
    "nn.initialisers": INITIALISERS - {"Initialiser"} | {"zeros", "ones"},
}


@pytest.mark.parametrize("section", WANTED)
def test_layers_page_is_complete(section):
    cells = [line.split("|")[1] for line in SECTIONS[section].splitlines() if line.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", " ".join(cells)))
    if section == "optim":
        named |= set(re.findall(r"`(\w+)`", SECTIONS[section].split("\n\nA learning-rate schedule")[1]))
    assert named == WANTED[section]
