"""The C++ and Swift functions of operations, which tools/native generates from the schema, must be up to date."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mpsgraph.ops.schema import schemas

ROOT = Path(__file__).resolve().parents[2]
CPP = ROOT / "include/mpsgraph/application/operations.hpp"


@pytest.fixture(scope="module")
def model():
    sys.path.insert(0, str(ROOT / "tools" / "native"))
    try:
        yield importlib.import_module("model")
    finally:
        sys.path.pop(0)


def check(tool: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, tool / "tools" / "native", "--check"], capture_output=True, text=True)


def test_generated_files_match_schema():
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


def test_check_reports_outdated_file(tmp_path):
    """Copy the tool and its results, and change a default in the copy."""
    for path in ["tools/native", "tools/apple_operations.txt", "include/mpsgraph/application", "swift/Sources"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", ROOT / path, tmp_path / path], check=True)
    assert check(tmp_path).returncode == 0
    copy = tmp_path / CPP.relative_to(ROOT)
    copy.write_text(copy.read_text().replace("int64_t axis = -1", "int64_t axis = 0", 1))
    done = check(tmp_path)
    assert done.returncode == 1 and "operations.hpp is not up to date: run make stubs" in done.stderr


def test_every_public_kind_has_generated_function_or_stated_reason(model):
    kinds = {name for name, schema in schemas().items() if not schema.definition["internal"]}
    generated = {operation.kind for operation in model.operations()}
    assert generated | set(model.COMPOSED) == kinds
    assert not generated & set(model.COMPOSED)
    found = set(re.findall(r'detail::Call\("(\w+)"', CPP.read_text()))
    assert found == generated


def test_tables_of_generator_name_existing_arguments(model):
    """Entries that no longer have an effect must be removed."""
    arguments = {(o.kind, a.name) for o in model.operations() for a in o.arguments}
    for table in (model.DOCUMENTED, model.FLAGS, model.BEFORE):
        assert set(table) <= arguments, json.dumps(sorted(map(str, set(table) - arguments)))
    assert set(model.SIGNATURES) <= {o.kind for o in model.operations()}
    used = {a.enumeration for o in model.operations() for a in o.arguments} | {"PaddingStyle"}
    assert set(model.ENUMERATIONS) == used - {""}


def test_generated_functions_set_exactly_the_declared_attributes(model):
    """A misspelt attribute would only fail when the function is called."""
    definitions = {name: schema.definition["attributes"] for name, schema in schemas().items()}
    calls = re.findall(r'detail::Call\("(\w+)".*?;\n', CPP.read_text(), re.DOTALL)
    texts = re.findall(r'detail::Call\("\w+".*?;\n', CPP.read_text(), re.DOTALL)
    for kind, text in zip(calls, texts, strict=True):
        names = re.findall(r'\.(?:set|set_dtype)\("(\w+)"', text) + re.findall(r'\.optional\(.*?, "(\w+)"\)', text)
        assert len(names) == len(set(names)), kind
        assert set(names) <= set(definitions[kind]), kind
        assert {name for name, (_, default) in definitions[kind].items() if default is None} <= set(names), kind


def test_names_of_enumerations_are_names_that_operations_accept(model):
    source = "".join(path.read_text() for path in (ROOT / "src" / "core").rglob("*.cpp"))
    source += "".join(path.read_text() for path in (ROOT / "src" / "core").rglob("*.h"))
    for enumeration, values in model.ENUMERATIONS.items():
        if enumeration != "PoolingIndices":  # The source composes these names.
            assert [value for value in values if f'"{value}"' not in source] == [], enumeration
