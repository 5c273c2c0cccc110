"""Check the structure of the source tree: which files may include or import which, file sizes, opening comments, and
file names.

These tests only read the files and run none of the code.
"""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
MAX_LINES = 620  # "About 600" in the documented limit.
CXX = {".h", ".cpp", ".inc", ".mm"}

# Each folder may include its own headers and those of the folders after it. Backends must not include each other.
LAYERS = ["bindings", "c_api", "backends", "nngraph", "runtime", "compiler", "core"]


def source_files(*folders: str, suffixes: set[str]) -> list[Path]:
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and path.is_file()
    )


def text_files() -> list[Path]:
    """Return all source and text files of the repository, without build products."""
    made = {".git", "build", "dist", ".venv", ".venv-bench", ".venv-conformance", ".venv-docs", ".venv-jax"}
    made |= {".venv-distributed", ".venv-onnxruntime", ".venv-coreml", ".venv-lm", ".venv-array-api", "demo-output"}
    suffixes = CXX | {".py", ".pyi", ".md", ".toml", ".txt", ".cmake", ".yaml", ".yml", ".in", ""}
    result = []
    for top in ROOT.iterdir():
        if top.name in made or top.name.endswith("_cache") or top.name == ".hypothesis":
            continue
        inside = [top] if top.is_file() else top.rglob("*")
        result += [p for p in inside if p.is_file() and p.suffix in suffixes and "__pycache__" not in p.parts]
    return sorted(result)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


PUBLIC = ROOT / "include"
CXX_FILES = source_files("include", "src", suffixes=CXX)
WRITTEN_FILES = source_files(
    "include", "src", "python", "tests", "bench", "examples", "tools", "cmake", suffixes=CXX | {".py"}
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))  # Excludes subfolders, which hold parts of one example.


def quoted_includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def layer_of(name: str) -> str | None:
    """Return the layer of a file from the path that other files include, or None for headers above all layers."""
    folders = name.removeprefix("mpsgraph/").split("/")[:-1]
    return folders[0] if folders else None


def included_as(path: Path) -> str:
    return path.relative_to(PUBLIC if path.is_relative_to(PUBLIC) else SRC).as_posix()


def test_source_files_of_every_layer_are_found():
    layers = {layer_of(included_as(p)) for p in CXX_FILES}
    assert layers >= {"bindings", "backends", "runtime", "compiler", "core"}


@pytest.mark.parametrize("path", CXX_FILES, ids=relative)
def test_includes_reach_only_lower_layers(path: Path):
    own = included_as(path)
    for include in quoted_includes(path):
        public = include.startswith("mpsgraph/")
        assert ((PUBLIC if public else SRC) / include).is_file(), f"{include} must be relative to include/ or src/"
        assert public or not path.is_relative_to(PUBLIC), f"{include}: public headers may only include public headers"
        layer, target = layer_of(own), layer_of(include)
        # Only the umbrella header, the export macros, and the C interface are outside the layers.
        if layer is None or target is None:
            assert own == "mpsgraph/mpsgraph.hpp" or include == "mpsgraph/export.h" or include in C_INTERFACE
            continue
        assert target in LAYERS, f"{include} must belong to one of the layers"
        assert LAYERS.index(layer) <= LAYERS.index(target), f"{layer} must not include {include}"
        if layer == target == "backends":
            assert own.split("/")[1] == include.split("/")[1], f"{include}: backends must not include each other"


# Headers of the C interface, for applications that use nothing else. Only src/c_api implements them.
C_INTERFACE = {
    *("mpsgraph/mpsgraph.h", "mpsgraph/function_table.h", "mpsgraph/application.hpp"),
    "mpsgraph/custom_operation.h",
}


def test_umbrella_header_includes_all_public_headers():
    umbrella = PUBLIC / "mpsgraph" / "mpsgraph.hpp"
    others = {included_as(p) for p in source_files("include", suffixes=CXX)} - {included_as(umbrella)} - C_INTERFACE
    assert set(quoted_includes(umbrella)) == others - {"mpsgraph/export.h"}
    page = (ROOT / "docs" / "cpp.md").read_text()
    listed = set(re.findall(r"`(\w+/\w+\.h)`", page))
    assert {f"mpsgraph/{header}" for header in listed} == others - {"mpsgraph/export.h"}, (
        "docs/cpp.md must list exactly the public headers"
    )


# --- map of folders in ARCHITECTURE.md --------------------------------------------------------------------------------
def mapped_folders() -> set[str]:
    """Return the folders that the map in ARCHITECTURE.md names."""
    _, _, text = (ROOT / "ARCHITECTURE.md").read_text().partition("```\n")
    found, parent = set(), ""
    for line in text.partition("```")[0].splitlines():
        names = re.fullmatch(r"(\s*(?:\S+/,? ?)*).*", line)[1]
        folders = re.findall(r"[\w/]+/", names)
        if folders and not line.startswith(" "):
            parent = folders[0]
        found |= {(folder if not line.startswith(" ") else parent + folder).rstrip("/") for folder in folders}
    return found


def test_architecture_map_names_existing_folders():
    found = mapped_folders()
    assert {"src/core", "src/backends/cpu/jit", "python/mpsgraph/nn", "include/mpsgraph"} <= found
    assert [path for path in found if not (ROOT / path).is_dir()] == []


@pytest.mark.parametrize("folder", ["src", "src/backends", "src/backends/cpu", "python/mpsgraph"])
def test_architecture_map_lists_every_folder(folder: str):
    there = {p for p in (ROOT / folder).iterdir() if p.is_dir() and not p.name.startswith("__")}
    shown = mapped_folders()
    assert [relative(p) for p in there if not any(f"{s}/".startswith(f"{relative(p)}/") for s in shown)] == []


THIRD_PARTY = [  # Patterns of third-party headers and of the files in src that may include them.
    (r"omp\.h", r"backends/cpu/(\w+/)?\w+\.(cpp|h)"),
    (r"immintrin|\w*mmintrin|arm_neon", r"backends/cpu/(\w+/)?\w+(\.simd)?\.(cpp|h)"),
    (r"nlohmann/", r"runtime/json\.h"),
    (r"pybind11/", r"bindings/\w+\.(cpp|h)"),
    (r"Python\.h", r"bindings/\w+\.(cpp|h)"),
]


@pytest.mark.parametrize("path", CXX_FILES, ids=relative)
def test_third_party_headers_are_included_only_where_allowed(path: Path):
    own = included_as(path)
    for include in re.findall(r"^\s*#\s*include\s+<([^>]+)>", path.read_text(), re.MULTILINE):
        for headers, files in THIRD_PARTY:
            if re.match(headers, include):
                assert re.fullmatch(files, own), f"{own} must not include <{include}>"


def docstring_lines(path: Path) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, documented) and ast.get_docstring(n)]
    return sum(n.body[0].end_lineno - n.body[0].lineno + 1 for n in nodes)


@pytest.mark.parametrize("path", WRITTEN_FILES, ids=relative)
def test_source_files_are_within_the_line_limit(path: Path):
    """Docstrings do not count: complete sections make a file longer but not harder to read."""
    lines = len(path.read_text().splitlines()) - (docstring_lines(path) if path.suffix == ".py" else 0)
    assert lines <= MAX_LINES, f"{lines} lines exceed the limit of {MAX_LINES}: split the file by subject"


@pytest.mark.parametrize("path", WRITTEN_FILES, ids=relative)
def test_source_files_begin_with_a_comment_or_docstring(path: Path):
    first = path.read_text().lstrip().splitlines()[:1]
    opening = "//" if path.suffix in CXX else ('"""', 'r"""', "#")
    assert first and first[0].startswith(opening), "must begin with a comment or docstring that describes the file"


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_examples_are_short_and_have_a_page_and_a_test(path: Path):
    assert len(path.read_text().splitlines()) < 200
    page = ROOT / "docs" / "examples" / f"{path.stem}.md"
    assert f"](../../{relative(path)})" in page.read_text()
    assert f"]({page.name})" in (page.parent / "README.md").read_text(), "docs/examples/README.md must list the page"
    assert (ROOT / "tests" / "examples" / f"test_{path.name}").is_file()


def test_source_files_contain_no_absolute_local_paths():
    machine = re.compile(r"(?<![\w.])/(work|root|home|tmp|Users)/\w")
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if machine.search(line)
    ]
    assert not found


def test_links_between_pages_have_targets():
    pages = [p for p in text_files() if p.suffix == ".md"]
    plain = {page: re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL) for page in pages}
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", plain[page])]
    assert links and [(relative(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_decision_records_are_numbered_and_listed():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(p for p in folder.glob("*.md") if p.name != "README.md")
    listed = re.findall(r"^- \[(\d{4} .+)\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name in listed] == [p.name for p in pages]
    status = r"(accepted|superseded by \[\d{4}\]\(\d{4}-[\w-]+\.md\))"
    for (title, name), number in zip(listed, range(1, len(pages) + 1), strict=True):
        assert title[:4] == name[:4] == f"{number:04}", (
            f"number of {name} does not match its title in the list: {title}"
        )
        text = (folder / name).read_text()
        assert re.match(rf"# {re.escape(title)}\n\nDate: 20\d\d-\d\d-\d\d · Status: {status}\n\n## Context\n", text), (
            name
        )
        _, *sections = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
        allowed = (["Context", "Decision", "Consequences"], ["Context", "Decision", "Alternatives", "Consequences"])
        assert sections[::2] in allowed, f"{name} has the sections {sections[::2]}"
        assert all(body.strip() for body in sections[1::2]), f"{name} has an empty section"


VECTOR_FILE = re.compile(r"(\.simd|_avx2|_avx512|_avx512_bf16)\.cpp$")  # compiled for more than the baseline
VECTOR_FILES = [p for p in source_files("src/backends/cpu", suffixes={".cpp"}) if VECTOR_FILE.search(p.name)]


def all_includes(path: Path) -> set[str]:
    """Return the headers of the project that a file includes, directly or through other headers."""
    seen, left = set(), quoted_includes(path)
    while left:
        include = left.pop()
        if include not in seen:
            seen.add(include)
            left += quoted_includes((PUBLIC if include.startswith("mpsgraph/") else SRC) / include)
    return seen


@pytest.mark.parametrize("path", VECTOR_FILES, ids=lambda p: p.stem)
def test_instruction_set_specific_files_do_not_include_the_graph(path: Path):
    assert len(VECTOR_FILES) > 30
    graph = {"backends/cpu/kernel.h", "core/definition.h", "mpsgraph/core/graph.h", "mpsgraph/core/builder.h"}
    assert not all_includes(path) & graph, (
        "vectorized loops must not include graph headers, see `half_types.h` in ARCHITECTURE.md"
    )


def test_build_files_do_not_target_the_build_machine():
    flag = "-march=" + "native"
    assert not [relative(p) for p in text_files() if p.name in {"CMakeLists.txt", "Makefile"} and flag in p.read_text()]


def test_vector_intrinsics_are_only_in_vector_kernels_and_their_headers():
    """Other files are compiled for the baseline instruction set, which does not have these instructions."""
    headers = set()
    for path in CXX_FILES:
        if re.search(r"_mm256_|_mm512_|__m256|__m512", path.read_text()) and not VECTOR_FILE.search(path.name):
            assert path.suffix == ".h", f"{relative(path)}: vector intrinsics belong in *.simd.cpp or *_avx2.cpp"
            headers.add(str(path.relative_to(SRC)))
    cpu = source_files("src/backends/cpu", suffixes={".cpp"})
    wrong = {relative(p): found for p in cpu if not VECTOR_FILE.search(p.name) and (found := all_includes(p) & headers)}
    assert "backends/cpu/simd.h" in headers and not wrong, f"only vector kernels may include these headers: {wrong}"


# --- operation family names -------------------------------------------------------------------------------------------
def stated(folder: str, table: str) -> dict[Path, str]:
    """Return the table entry of each file in a folder, e.g. from `const Family pooling_family("pooling", ...)`."""
    entry = re.compile(rf'^const {table} (\w+)\("(\w+)", \[\]', re.MULTILINE)
    found = {path: entry.findall(path.read_text()) for path in source_files(folder, suffixes={".cpp", ".mm"})}
    found = {path: entries for path, entries in found.items() if entries}
    for path, entries in found.items():
        ending = {"Family": "family", "Kernels": "kernels", "Lowerings": "lowerings"}[table]
        assert [name for name, _ in entries] == [f"{path.stem}_{ending}"], (
            "each file must have exactly one entry, named after the file"
        )
    return {path: entries[0][1] for path, entries in found.items()}


STATED = stated("src/core/ops", "Family")
FAMILIES = set(STATED.values())


def belongs_to(stem: str, families) -> bool:
    """Return whether a file belongs to a family: `pooling` and `pooling_gradients` both belong to pooling."""
    return any(stem == family or stem.startswith(family + "_") for family in families)


def test_operation_definitions_are_in_the_file_of_their_family():
    assert "pooling" in FAMILIES
    for path, family in STATED.items():
        assert belongs_to(path.stem, [family]), f"{relative(path)} states {family}"
    assert FAMILIES <= {path.stem for path in STATED}, "every family must have a file with exactly its name"


@pytest.mark.parametrize("folder, table", [("src/backends/cpu", "Kernels"), ("src/backends/metal", "Lowerings")])
def test_backend_operation_tables_are_in_files_named_after_families(folder: str, table: str):
    found = stated(folder, table)
    assert {path.stem for path in found} >= {"pooling", "reduction", "shape"}
    assert {path.stem: name for path, name in found.items()} == {path.stem: path.stem for path in found}


@pytest.mark.parametrize("folder", ["python/mpsgraph/ops", "tests/cases"])
def test_python_operation_files_are_named_after_families(folder: str):
    # Passes create the fused operations, which have no Python function. Custom operations and their tests have a
    # package and a folder instead of a file.
    public = FAMILIES - {"fused", "custom"}
    stems = {p.stem for p in (ROOT / folder).glob("*.py") if not p.stem.startswith("_")}
    if folder == "tests/cases":
        assert public <= stems, "every family must have a file"
    others = stems - {"schema", "derived"}  # methods that are derived from the definitions need no file of a family
    assert not [stem for stem in others if not belongs_to(stem, public)], "every file must belong to a family"


# --- test folders -----------------------------------------------------------------------------------------------------
TESTS = ROOT / "tests"
TEST_FILES = [
    p for p in source_files("tests", suffixes={".py", ".cpp", ".mm"}) if re.search(r"^test_|_test\.mm$", p.name)
]
MARKER = "pytest.mark.both_devices"


def listed_folders() -> set[str]:
    """Return the folders in the first table of tests/README.md."""
    page, _, _ = (TESTS / "README.md").read_text().partition("Folders without tests:")
    return set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE))


def test_tests_readme_lists_exactly_the_folders_with_tests():
    # The mock's tests are described in its own README.
    places = {relative(p.parent) for p in TEST_FILES} - {"tests/mock/tests"}
    assert places == {f"tests/{folder}" for folder in listed_folders()}, (
        "the first table of tests/README.md must list every folder with tests"
    )


def test_tests_readme_describes_every_folder():
    listed = set(re.findall(r"^\| `(\w+)/` \|", (TESTS / "README.md").read_text(), re.MULTILINE))
    assert listed == {p.name for p in TESTS.iterdir() if p.is_dir() and p.name != "__pycache__"}


@pytest.mark.parametrize("path", [p for p in TEST_FILES if p.suffix == ".py"], ids=relative)
def test_tests_using_is_metal_have_the_both_devices_marker(path: Path):
    text = path.read_text()
    if path.parent.name == "metal":
        assert MARKER not in text, "tests in tests/metal run only on device metal and need no marker"
    elif re.search(r"\bIS_METAL\b", text) and path != Path(__file__).resolve():
        assert MARKER in text, "uses IS_METAL but has no both_devices marker, so it only runs on the CPU"


def test_conftest_does_not_name_individual_tests():
    assert not re.findall(r"\btest_\w+(?:\.py)?\b", (TESTS / "conftest.py").read_text())


# --- imports between Python modules -----------------------------------------------------------------------------------
PYTHON = ROOT / "python" / "mpsgraph"

# Each package or module may import itself and those in later rows. Those in the same row must not import each other. A
# module that is not in the row of its package has a separate entry.
PYTHON_LAYERS = [
    ["__main__"],
    ["cli", "tool"],
    ["lm_command"],  # Apart from lm, so that parsing a command line does not import it.
    ["selftest"],
    ["demo"],  # Programs that use the package like any other user.
    ["mpsgraph"],  # Top-level names of the package.
    ["torch", "jax"],
    ["packages"],
    ["lm"],
    ["coreml", "onnx", "training"],
    ["onnx.building", "onnx.rebuilding"],  # An import either builds a graph from nodes or rebuilds an exported one.
    ["onnx.reading"],
    ["interchange"],
    ["distributed", "precision.layer_precision"],  # Measures layers, so it is above them.
    ["_methods", "custom", "data", "model", "nn", "nngraph", "optim", "profiler", "tensor", "transforms"],
    ["numpy"],
    ["graph", "quantization"],
    ["ops"],
    ["_limits", "_tensor_data", "pictures", "precision", "random"],
    ["_checks", "_dtypes"],
    [
        "_annotations",
        "_argument_errors",
        "_custom_gradients",
        "_fetched",
        "_native_arguments",
        "_recomputation",
        "_tracking",
    ],
    ["_core_docstrings", "_display", "_loader", "_names", "_narrow", "_optional", "_pickling"],
    ["errors"],
    ["_core"],
]


def python_modules() -> dict[str, Path]:
    """Return the files of the package's modules by name, with the stub file for the compiled module."""
    found = {}
    for path in [*PYTHON.rglob("*.py"), PYTHON / "_core.pyi"]:
        parts = path.relative_to(PYTHON.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = python_modules()


def imports_of(name: str) -> set[str]:
    """Return the modules of the package that a module imports at top level, in functions, or for type checkers.

    Importing a module of another package also imports that package, whose __init__ runs first.
    """
    package = name.split(".") if MODULES[name].stem == "__init__" else name.split(".")[:-1]
    wanted = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) + "." if node.level else ""
            base = (base + (node.module or "")).rstrip(".")
            inner = {f"{base}.{alias.name}" for alias in node.names}
            wanted |= {full if full in MODULES else base for full in inner}
    wanted &= MODULES.keys()
    packages = {".".join(full.split(".")[:end]) for full in wanted for end in range(2, full.count(".") + 1)}
    return (wanted | {p for p in packages if not f"{name}.".startswith(f"{p}.")}) - {name}


IMPORTS = {name: imports_of(name) for name in MODULES}


def python_layer_of(name: str) -> tuple[int, str]:
    """Return the row of a module and its entry there: the longest entry that is the module or one of its packages."""
    inside = f"{name.removeprefix('mpsgraph.')}."
    fitting = [
        (row, entry) for row, entries in enumerate(PYTHON_LAYERS) for entry in entries if inside.startswith(f"{entry}.")
    ]
    assert fitting, f"add {name} to PYTHON_LAYERS, above the modules that it imports"
    return max(fitting, key=lambda found: len(found[1]))


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("mpsgraph.graph", "mpsgraph._core"),  # `from . import` statement.
        ("mpsgraph.cli", "mpsgraph.selftest"),  # Import in a function.
        ("mpsgraph.nn.module", "mpsgraph.graph"),  # Import for type checkers only.
        ("mpsgraph.ops._family", "mpsgraph.precision"),  # Package that contains the imported module.
        ("mpsgraph.demo.digits", "mpsgraph"),  # `import` statement.
    ],
)
def test_import_scan_finds_all_kinds_of_imports(name: str, imported: str):
    assert imported in IMPORTS[name]


def test_python_imports_have_no_cycles():
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_python_imports_reach_only_lower_layers(name: str):
    row, own = python_layer_of(name)
    for imported in IMPORTS[name]:
        below, other = python_layer_of(imported)
        assert own == other or row < below, f"{own} must not import {imported}"


def test_every_listed_python_layer_exists():
    assert {entry for entries in PYTHON_LAYERS for entry in entries} == {python_layer_of(name)[1] for name in MODULES}
