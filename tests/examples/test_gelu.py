"""Test examples/gelu.py: both programs compute GELU and its derivative, and fusion yields a single kernel."""

import math

import gelu
import numpy as np
import pytest

SIZE = 4096


def expected(values: np.ndarray) -> list[np.ndarray]:
    """Return GELU and its derivative, computed in float64."""
    x = values.astype(np.float64)
    below = np.array([(1 + math.erf(v * math.sqrt(0.5))) / 2 for v in x])
    return [x * below, below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)]


@pytest.mark.parametrize("what", [gelu.FORWARD, gelu.BACKWARD])
def test_fused_and_separate_programs_compute_gelu(what: str):
    values = np.linspace(-6, 6, SIZE, dtype=np.float32)
    for program in gelu.programs(SIZE, what):
        results = program.run(values)
        assert len(results) == (2 if what == gelu.BACKWARD else 1)
        for result, wanted in zip(results, expected(values), strict=False):
            np.testing.assert_allclose(result.numpy(), wanted, rtol=0, atol=2e-6)


@pytest.mark.parametrize("what", [gelu.FORWARD, gelu.BACKWARD])
def test_fused_gelu_is_one_kernel_without_intermediate_results(what: str):
    fused, separate = (program.executable for program in gelu.programs(SIZE, what))
    assert len(fused.kernel_names()) == 1 and len(separate.kernel_names()) >= 4
    assert fused.bytes < 1024, "a fused program must allocate only constants"
    assert separate.bytes >= 2 * 4 * SIZE, "a separate program must keep at least two arrays alive"


def test_gelu_timings_are_measured_and_drawn(tmp_path):
    from matplotlib.image import imread

    rows = gelu.measure([64, 256], seconds=0.0)
    assert [(row.what, row.size) for row in rows] == [(w, n) for w in (gelu.FORWARD, gelu.BACKWARD) for n in (64, 256)]
    assert all(row.ratio == row.seconds[1] / row.seconds[0] > 0 for row in rows)
    gelu.draw(tmp_path / "gelu.png", rows)
    assert imread(tmp_path / "gelu.png").shape[0] > 300
