"""Run the code on docs/training.md, docs/data.md, and docs/guides/steps.md and check its results."""

import re

import mpsgraph as mg
import numpy as np
import pytest


def run_page(path, folder, monkeypatch):
    """Run the Python blocks of a page in order, in the folder, and return the names they define."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": path.stem}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"block {number} of {path.name}", "exec"), names)
    return names


def test_training_page_code_trains(repository, tmp_path, monkeypatch, capsys):
    names = run_page(repository / "docs" / "training.md", tmp_path, monkeypatch)
    assert names["history"].epochs[-1]["val_accuracy"] > 0.8 and names["averaged"]["accuracy"] > 0.8
    assert (tmp_path / "best.safetensors").exists() and "val_loss" in (tmp_path / "log.csv").read_text()
    assert len(names["again"].history.epochs) == 8
    assert "f1" in capsys.readouterr().out


def test_steps_page_code_trains(repository, tmp_path, monkeypatch):
    names = run_page(repository / "docs" / "guides" / "steps.md", tmp_path, monkeypatch)
    smooth = names["smooth"].history.steps
    assert smooth["loss"][-1] < 0.5 * smooth["loss"][0]
    gan = names["gan"]
    assert set(gan.history.steps) == {"loss", "distance", "penalty"} and names["drawn"].shape == (4, 8, 8, 1)
    assert np.isfinite(gan.history.loss).all() and np.abs(names["drawn"]).max() <= 1


def test_gan_optimizers_of_steps_page_update_only_their_own_network(repository, tmp_path, monkeypatch):
    names = run_page(repository / "docs" / "guides" / "steps.md", tmp_path, monkeypatch)
    scans = names["x"][:8] * 2 - 1
    for rates, still in (((1e-3, 0.0), "critic"), ((0.0, 1e-3), "generator")):
        gan = names["GAN"]()
        gan.train_step(scans).wait()
        before = gan.weights()
        gan.optimizer.learning_rate, gan.critic_optimizer.learning_rate = rates
        gan.train_step(scans).wait()
        moved = {path.split(".")[0] for path, value in gan.weights().items() if (value != before[path]).any()}
        assert moved == {"generator", "critic"} - {still}


def test_data_page_code_prints_the_stated_output(repository, tmp_path, monkeypatch, capsys):
    for module in ("PIL", "h5py", "tokenizers"):
        pytest.importorskip(module)
    names = run_page(repository / "docs" / "data.md", tmp_path, monkeypatch)
    assert capsys.readouterr().out.endswith(
        "(64, 64)\n['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] 40\n(4, 8) (4, 8)\n"
    )
    assert names["state"] == {"epoch": 0, "position": 1, "seed": 1, "samples": 1438}
    assert names["trainer"].history.loss[-1] < 0.5 * names["trainer"].history.loss[0], (
        "the model must distinguish the texts"
    )
    assert names["mixed"].evaluate(names["x"], names["y"])["accuracy"] > 0.8
    assert (names["following"][:, :-1] == names["inputs"][:, 1:]).all()


@pytest.mark.parametrize("page", ["training.md", "data.md"])
def test_links_and_names_on_training_pages_exist(repository, page):
    text = (repository / "docs" / page).read_text()
    for target in re.findall(r"\]\(([\w/.]+)\)", text):
        assert (repository / "docs" / target).exists(), target
    for room, name in re.findall(r"\b(nn|optim|mg\.data|callbacks)\.(\w+)\(", text):
        owner = {"nn": mg.nn, "optim": mg.optim, "mg.data": mg.data, "callbacks": mg.training.callbacks}[room]
        assert hasattr(owner, name), f"{room}.{name}"
