"""Test distributed checkpoints: one process writes, and any number of processes can resume."""

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed: make test-distributed")
import mpsgraph as mg
from harness import process_programs
from harness.processes import results_of

BATCH = 12


def fitted(processes: int, **options) -> list[dict]:
    if processes == 0:  # Zero processes means that this process runs alone, without MPI.
        return [process_programs.fitted(batch=BATCH, distributed=False, **options)]
    return results_of(processes, "fitted", batch=BATCH // processes, **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[str, list[float]]:
    """Return a checkpoint that three processes wrote within an epoch, and the losses of the uninterrupted training."""
    path = str(tmp_path_factory.mktemp("checkpoint") / "three.safetensors")
    result = fitted(3, steps=20, path=path, save_at=11)
    return path, result[0]["losses"]


@pytest.mark.parametrize("processes", [0, 1, 2, 3, 4])
def test_training_resumes_with_a_different_number_of_processes(processes: int, saved):
    path, losses = saved
    for own in fitted(processes, steps=9, resume=path):
        assert own["step"] == 20
        if processes == 3:
            assert own["losses"] == losses, "the same number of processes must resume bit for bit"
        np.testing.assert_allclose(own["losses"], losses, rtol=1e-10)


def test_several_processes_resume_checkpoint_of_one_process(tmp_path):
    path = str(tmp_path / "one.safetensors")
    (one,) = fitted(0, steps=20, path=path, save_at=11)
    for own in fitted(2, steps=9, resume=path):
        np.testing.assert_allclose(own["losses"], one["losses"], rtol=1e-10)


def test_accumulated_gradients_are_saved_for_all_processes(tmp_path):
    path, options = str(tmp_path / "sums.safetensors"), {"gradient_accumulation_steps": 4}
    whole = fitted(2, steps=12, path=path, save_at=6, **options)
    for own in (*fitted(2, steps=6, resume=path, **options), *fitted(0, steps=6, resume=path, **options)):
        np.testing.assert_allclose(own["losses"], whole[0]["losses"], rtol=1e-10)


def test_dropout_differs_between_processes_and_resumes_bitwise_equal(tmp_path):
    path, options = str(tmp_path / "dropout.safetensors"), {"dropout": 0.3, "steps": 12}
    whole = fitted(4, **options)
    kept = fitted(4, path=path, save_at=5, **options)
    resumed = fitted(4, resume=path, dropout=0.3, steps=7)
    assert whole[0]["losses"] == kept[0]["losses"] == resumed[0]["losses"]
    other = fitted(2, resume=path, dropout=0.3, steps=7)
    assert other[0]["losses"] != whole[0]["losses"] and np.isfinite(other[0]["losses"]).all()


def test_saved_random_states_of_processes_differ_only_in_rank():
    (first,), (second,), (third,) = results_of(3, "masks")
    assert first[4] == 0 and second[4] == 1 and third[4] == 2
    assert first[:4] + first[5:] == second[:4] + second[5:] == third[:4] + third[5:]


def test_unreadable_or_unwritable_checkpoint_raises_in_every_process(tmp_path):
    said = results_of(2, "unreadable", path=str(tmp_path / "no" / "such" / "file"))
    for loading, saving in said:
        assert loading.startswith("CheckpointError") and "cannot be read" in loading
        assert saving.startswith("CheckpointError") and "cannot be written" in saving


def test_packaging_a_distributed_trainer_raises(tmp_path):
    said = results_of(2, "packaged", path=str(tmp_path / "trained.mpsgraph"))
    assert all("write a checkpoint with trainer.save(path)" in text for text in said)
    assert not (tmp_path / "trained.mpsgraph").exists()


def test_batch_position_is_converted_for_another_shard_count():
    x = np.arange(64)
    four = mg.data.batches((x,), 4).shard(0, 4)
    for _, _ in zip(four, range(2), strict=False):
        pass
    two = mg.data.batches((x,), 4).shard(1, 2)
    two.load_state_dict(four.state_dict())
    assert (two.epoch, two.position) == (0, four.position * 2)
