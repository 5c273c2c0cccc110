"""Compare training by n processes with batch size b to a single process with batch size n * b, for many models."""

from functools import lru_cache

import numpy as np
import pytest

# mpi4py and mpiexec are optional: `make test-distributed` creates an environment with them.
pytest.importorskip("mpi4py", reason="mpi4py is not installed: make test-distributed")
import mpsgraph as mg
from harness import process_programs
from harness.processes import results_of

BATCH = 16  # Batch size over all processes together.
FLOAT64, FLOAT32 = {"rtol": 1e-10, "atol": 1e-12}, {"rtol": 1e-4, "atol": 1e-5}
SMALL = mg.distributed.DataParallel(bucket_bytes=2000)
TOGETHER = mg.distributed.DataParallel(synchronize_batch_norm=True)
CASES = {
    "float64": {},
    "float32": {"dtype": "float32", "steps": 50},
    "sgd": {"optimizer": "SGD"},
    "uneven batches": {"samples": 103},
    "small buckets": {"distributed": SMALL},
    "accumulation": {"gradient_accumulation_steps": 3, "samples": 103},
    "averages": {"ema_decay": 0.9},
    "mean squared error": {"loss": "squared"},
    "ignored labels": {"loss": "ignoring", "samples": 103},
    "class weights": {"loss": "weighted", "samples": 103},
    "class weights and accumulation": {"loss": "weighted", "samples": 103, "gradient_accumulation_steps": 2},
    "batch norm": {"model": "network", "distributed": TOGETHER, "samples": 103},
    "batch norm in float32": {"model": "network", "distributed": TOGETHER, "dtype": "float32", "steps": 50},
    "batch norm and accumulation": {
        "model": "network", "distributed": TOGETHER, "gradient_accumulation_steps": 2, "optimizer": "SGD",
    },
}  # fmt: skip


@lru_cache
def in_processes(processes: int) -> list[list[dict]]:
    """Return the results of each process, by case."""
    cases = [case | {"batch": BATCH // processes} for case in CASES.values()]
    by_process = results_of(processes, "many", cases=cases)
    return list(zip(*by_process, strict=True))


@lru_cache
def alone(name: str) -> dict:
    case = {key: value for key, value in CASES[name].items() if key != "distributed"}
    return process_programs.fitted(**case, batch=BATCH, distributed=False)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_losses_and_weights_match_a_single_process(processes: int, name: str):
    expected, found = alone(name), in_processes(processes)[list(CASES).index(name)]
    tolerance = FLOAT32 if CASES[name].get("dtype") == "float32" else FLOAT64
    assert len(expected["losses"]) == CASES[name].get("steps", 12)
    for own in found:
        np.testing.assert_allclose(own["losses"], expected["losses"], **tolerance)
        for name, values in expected["history"].items() if tolerance is FLOAT64 else ():
            np.testing.assert_allclose(own["history"][name], values, rtol=1e-6)
        for path, value in own["weights"].items():
            # Adam divides by the root of the second moment: where a gradient is only rounding error, so is the update.
            loose = {"rtol": 2e-2, "atol": 2e-3} if tolerance is FLOAT32 else {"rtol": 1e-6, "atol": 1e-8}
            np.testing.assert_allclose(value, expected["weights"][path], err_msg=path, **loose)
        assert own["history"].keys() == expected["history"].keys()
        np.testing.assert_allclose(own["history"]["accuracy"], expected["history"]["accuracy"], atol=1e-6)


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_all_processes_hold_bitwise_equal_models(processes: int, name: str):
    first, *others = in_processes(processes)[list(CASES).index(name)]
    for other in others:
        assert other["losses"] == first["losses"] and other["evaluated"] == first["evaluated"]
        for path, value in other["weights"].items():
            assert value.tobytes() == first["weights"][path].tobytes(), path


def test_small_bucket_size_gives_at_least_three_buckets():
    assert in_processes(2)[list(CASES).index("small buckets")][0]["buckets"] >= 3
    assert in_processes(2)[list(CASES).index("float64")][0]["buckets"] == 1
