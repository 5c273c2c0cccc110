"""Programs of a few of MIL's operations, built by coremltools, converted, loaded and run here.

Tests that import this ask for coremltools first.
"""

import coremltools as ct
import mpsgraph as mg
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import Function, Program, types


def placed(cases, target):
    """One program of several cases, converted, with its inputs: each case's are its own."""
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
    """What each case gives here, by case."""
    model, feeds, counts = placed(cases, target)
    file = str(path / "net.mlpackage")
    model.save(file)
    found = mg.coreml.load(file).run(feeds)
    return {case: [found[f"{case}_y{i}"].numpy() for i in range(count)] for case, count in counts.items()}


def results_here(path, make, inputs, target):
    """A program of one case, loaded and run."""
    return results_of(path, {"c": (make, inputs)}, target)["c"]
