"""Small MIL programs that coremltools builds and converts, and that the package loads and runs.

Tests must check that coremltools is installed before they import this module.
"""

import coremltools as ct
import mpsgraph as mg
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import Function, Program, types


def placed(cases, target):
    """Combine several cases, each with its own inputs, in one converted program.

    Returns the model, the feeds, and the number of results of each case.
    """
    kinds, version = {"f": types.fp32, "i": types.int32}, getattr(ct.target, target)
    feeds = {f"{case}_{name}": v for case, (_, inputs) in cases.items() for name, v in inputs.items()}
    placeholders = {name: mb.placeholder(v.shape, kinds[v.dtype.kind]) for name, v in feeds.items()}
    program, counts = Program(), {}
    with Function(placeholders, opset_version=version) as function:
        outputs = []
        for case, (make, inputs) in cases.items():
            made = make(**{name: function.inputs[f"{case}_{name}"] for name in inputs})
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            made = [mb.cast(x=v, dtype="int32") if v.dtype == types.bool else v for v in made]
            outputs += [mb.identity(x=v, name=f"{case}_y{i}") for i, v in enumerate(made)]
            counts[case] = len(made)
        function.set_outputs(outputs)
        program.add_function("main", function)
    model = ct.convert(
        program, source="milinternal", convert_to="mlprogram", minimum_deployment_target=version,
        compute_precision=ct.precision.FLOAT32, pass_pipeline=ct.PassPipeline.EMPTY, skip_model_load=True,
    )  # fmt: skip
    return model, feeds, counts


def results_of(path, cases, target):
    """Return the results that the package computes for each case."""
    model, feeds, counts = placed(cases, target)
    file = str(path / "net.mlpackage")
    model.save(file)
    found = mg.coreml.load(file).run(feeds)
    return {case: [found[f"{case}_y{i}"].numpy() for i in range(count)] for case, count in counts.items()}


def results_here(path, make, inputs, target):
    """Load and run the program of a single case."""
    return results_of(path, {"c": (make, inputs)}, target)["c"]
