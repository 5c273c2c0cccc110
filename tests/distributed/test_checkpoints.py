"""Checkpoints: one process writes, all go on; with another number of processes, too."""

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed: make test-distributed")
import mpsgraph as mg
from harness import process_programs
from harness.processes import results_of

BATCH = 12


def fitted(processes: int, **options) -> list[dict]:
    if processes == 0:  # none but this one, without MPI
        return [process_programs.fitted(batch=BATCH, distributed=False, **options)]
    return results_of(processes, "fitted", batch=BATCH // processes, **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[str, list[float]]:
    """A checkpoint of three processes in the middle of an epoch, and the losses of a training that goes on."""
    path = str(tmp_path_factory.mktemp("checkpoint") / "three.safetensors")
    result = fitted(3, steps=20, path=path, save_at=11)
    return path, result[0]["losses"]


@pytest.mark.parametrize("processes", [0, 1, 2, 3, 4])
def test_another_number_of_processes_goes_on_with_the_same_losses(processes: int, saved):
    path, losses = saved
    for own in fitted(processes, steps=9, resume=path):
        assert own["step"] == 20
        if processes == 3:
            assert own["losses"] == losses, "bit for bit"
        np.testing.assert_allclose(own["losses"], losses, rtol=1e-10)


def test_what_one_process_wrote_several_go_on_with(tmp_path):
    path = str(tmp_path / "one.safetensors")
    (one,) = fitted(0, steps=20, path=path, save_at=11)
    for own in fitted(2, steps=9, resume=path):
        np.testing.assert_allclose(own["losses"], one["losses"], rtol=1e-10)


def test_sums_of_gradients_that_wait_are_saved_for_all(tmp_path):
    path, options = str(tmp_path / "sums.safetensors"), {"gradient_accumulation_steps": 4}
    whole = fitted(2, steps=12, path=path, save_at=6, **options)
    for own in (*fitted(2, steps=6, resume=path, **options), *fitted(0, steps=6, resume=path, **options)):
        np.testing.assert_allclose(own["losses"], whole[0]["losses"], rtol=1e-10)


def test_dropout_has_a_stream_in_each_process_and_goes_on_bit_for_bit(tmp_path):
    path, options = str(tmp_path / "dropout.safetensors"), {"dropout": 0.3, "steps": 12}
    whole = fitted(4, **options)
    kept = fitted(4, path=path, save_at=5, **options)
    resumed = fitted(4, resume=path, dropout=0.3, steps=7)
    assert whole[0]["losses"] == kept[0]["losses"] == resumed[0]["losses"]
    other = fitted(2, resume=path, dropout=0.3, steps=7)
    assert other[0]["losses"] != whole[0]["losses"] and np.isfinite(other[0]["losses"]).all()


def test_dropouts_random_states_differ_by_a_word_that_names_the_process():
    (first,), (second,), (third,) = results_of(3, "masks")
    assert first[4] == 0 and second[4] == 1 and third[4] == 2
    assert first[:4] + first[5:] == second[:4] + second[5:] == third[:4] + third[5:]


def test_a_checkpoint_that_cannot_be_read_or_written_is_an_error_in_every_process(tmp_path):
    said = results_of(2, "unreadable", path=str(tmp_path / "no" / "such" / "file"))
    for loading, saving in said:
        assert loading.startswith("CheckpointError") and "cannot be read" in loading
        assert saving.startswith("CheckpointError") and "cannot be written" in saving


def test_a_step_of_several_processes_is_in_no_package(tmp_path):
    said = results_of(2, "packaged", path=str(tmp_path / "trained.mpsgraph"))
    assert all("trainer.save(path) writes a checkpoint" in text for text in said)
    assert not (tmp_path / "trained.mpsgraph").exists()


def test_a_batch_order_of_more_processes_stands_behind_as_many_samples():
    x = np.arange(64)
    four = mg.data.batches((x,), 4).shard(0, 4)
    for _, _ in zip(four, range(2), strict=False):
        pass
    two = mg.data.batches((x,), 4).shard(1, 2)
    two.load_state_dict(four.state_dict())
    assert (two.epoch, two.position) == (0, four.position * 2)
