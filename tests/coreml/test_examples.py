"""Export the models of examples/ to ML Programs and import them again.

The values must be equal, or the export must name the unsupported feature.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.exported_examples import EXAMPLES

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
pytestmark = pytest.mark.filterwarnings("default")  # coremltools warns about untested versions of other packages.

# Examples that MIL cannot express, with the expected error.
UNSAID = {
    "gan_detective": "random '.*MIL has no such operation",  # The discriminator's dropout is active in inference, too.
    "gpt_steps": "4 operations.*'cache'.*must be float16, got float32",
    "text_generation": "returns the cell states of all time steps",
    "text_generation_writer": "'inverse_temperature'.*inputs must have rank 1 to 5",
}


def test_every_listed_export_exception_is_an_example():
    assert set(UNSAID) <= {make.__name__ for make in EXAMPLES}


@pytest.mark.parametrize("make", EXAMPLES)
def test_examples_round_trip_through_coreml(make, tmp_path):
    example, path = make(), tmp_path / "net.mlpackage"
    if make.__name__ in UNSAID:
        with pytest.raises(mg.UnsupportedError, match="(?s)" + UNSAID[make.__name__]):
            example.export_coreml(path, target="iOS18")
        assert not list(tmp_path.iterdir())
        return
    example.export_coreml(path, target="iOS18")
    ct.models.MLModel(str(path), skip_model_load=True)
    back = mg.coreml.load(path)
    assert list(back.inputs) == example.inputs
    for arrays in example.feeds:
        found = back.run(arrays)
        for name, wanted in example.run(arrays).items():
            assert found[name].shape == wanted.shape
            scale = 1e-5 * max(1, np.abs(wanted).max(initial=0))
            np.testing.assert_allclose(found[name].numpy(), wanted, rtol=1e-4, atol=scale, err_msg=name)
