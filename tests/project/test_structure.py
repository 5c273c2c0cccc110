"""The house keeps its shape: who includes whom, sizes, opening comments, names, no trace of a machine.

These tests read the source tree and run nothing of it.
"""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
MAX_LINES = 620  # "about 600"
CXX = {".h", ".cpp", ".inc", ".mm"}

# Each folder may include itself and those that stand after it. Backends are siblings and do not see each other.
LAYERS = ["bindings", "c_api", "backends", "nngraph", "runtime", "compiler", "core"]


def source_files(*folders: str, suffixes: set[str]) -> list[Path]:
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and path.is_file()
    )


def text_files() -> list[Path]:
    """Everything that people wrote: the folders and files of the repository's root that are not build products."""
    made = {".git", "build", "dist", ".venv", ".venv-bench", ".venv-conformance", ".venv-docs", ".venv-jax"}
    made |= {".venv-distributed", ".venv-onnxruntime", ".venv-coreml", "demo-output"}
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
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))  # a folder beside them has parts of one


def quoted_includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def layer_of(name: str) -> str | None:
    """The layer of a file as others include it; None for what stands above them: the umbrella, the mark."""
    folders = name.removeprefix("mpsgraph/").split("/")[:-1]
    return folders[0] if folders else None


def included_as(path: Path) -> str:
    return path.relative_to(PUBLIC if path.is_relative_to(PUBLIC) else SRC).as_posix()


def test_sources_are_there():
    layers = {layer_of(included_as(p)) for p in CXX_FILES}
    assert layers >= {"bindings", "backends", "runtime", "compiler", "core"}


@pytest.mark.parametrize("path", CXX_FILES, ids=relative)
def test_includes_go_down(path: Path):
    own = included_as(path)
    for include in quoted_includes(path):
        public = include.startswith("mpsgraph/")
        assert ((PUBLIC if public else SRC) / include).is_file(), f"{include}: relative to include/ or src/"
        assert public or not path.is_relative_to(PUBLIC), f"{include}: a public header leads to public ones only"
        layer, target = layer_of(own), layer_of(include)
        if layer is None or target is None:  # the umbrella shows the public layers; all may be marked
            assert own == "mpsgraph/mpsgraph.hpp" or include == "mpsgraph/export.h" or include in C_INTERFACE
            continue
        assert target in LAYERS, f"{include}: only the layers' headers may be included"
        assert LAYERS.index(layer) <= LAYERS.index(target), f"{layer} may not include {include}"
        if layer == target == "backends":
            assert own.split("/")[1] == include.split("/")[1], f"{include}: a backend does not know its siblings"


# What applications include who know nothing of the core; only src/c_api is made of it.
C_INTERFACE = {
    *("mpsgraph/mpsgraph.h", "mpsgraph/function_table.h", "mpsgraph/application.hpp"),
    "mpsgraph/custom_operation.h",
}


def test_the_umbrella_has_every_public_header():
    umbrella = PUBLIC / "mpsgraph" / "mpsgraph.hpp"
    others = {included_as(p) for p in source_files("include", suffixes=CXX)} - {included_as(umbrella)} - C_INTERFACE
    assert set(quoted_includes(umbrella)) == others - {"mpsgraph/export.h"}
    page = (ROOT / "docs" / "cpp.md").read_text()
    listed = set(re.findall(r"`(\w+/\w+\.h)`", page))
    assert {f"mpsgraph/{header}" for header in listed} == others - {"mpsgraph/export.h"}, "docs/cpp.md lists them"


# --- the map in ARCHITECTURE.md ---------------------------------------------------------------------------------------
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
def test_architecture_map_is_complete(folder: str):
    there = {p for p in (ROOT / folder).iterdir() if p.is_dir() and not p.name.startswith("__")}
    shown = mapped_folders()
    assert [relative(p) for p in there if not any(f"{s}/".startswith(f"{relative(p)}/") for s in shown)] == []


THIRD_PARTY = [  # what may be included, and by which files of src
    (r"(oneapi/)?dnnl", r"backends/cpu/(\w+/)?onednn_\w+\.(cpp|h)"),
    (r"omp\.h", r"backends/cpu/(\w+/)?\w+\.(cpp|h|inc)"),
    (r"immintrin|\w*mmintrin|arm_neon", r"backends/cpu/(\w+/)?\w+\.(cpp|h|inc)"),
    (r"nlohmann/", r"runtime/json\.h"),
    (r"pybind11/", r"bindings/\w+\.(cpp|h)"),
    (r"Python\.h", r"bindings/\w+\.(cpp|h)"),
]


@pytest.mark.parametrize("path", CXX_FILES, ids=relative)
def test_third_party_headers_stay_in_their_place(path: Path):
    own = included_as(path)
    for include in re.findall(r"^\s*#\s*include\s+<([^>]+)>", path.read_text(), re.MULTILINE):
        for headers, files in THIRD_PARTY:
            if re.match(headers, include):
                assert re.fullmatch(files, own), f"<{include}> does not belong in {own}"


def docstring_lines(path: Path) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, documented) and ast.get_docstring(n)]
    return sum(n.body[0].end_lineno - n.body[0].lineno + 1 for n in nodes)


@pytest.mark.parametrize("path", WRITTEN_FILES, ids=relative)
def test_files_are_of_readable_size(path: Path):
    """Docstrings do not count: complete sections make a file longer, but not harder to read."""
    lines = len(path.read_text().splitlines()) - (docstring_lines(path) if path.suffix == ".py" else 0)
    assert lines <= MAX_LINES, f"{lines} lines: split it where its subject splits"


@pytest.mark.parametrize("path", WRITTEN_FILES, ids=relative)
def test_files_open_with_what_they_are(path: Path):
    first = path.read_text().lstrip().splitlines()[:1]
    opening = "//" if path.suffix in CXX else ('"""', 'r"""', "#")
    assert first and first[0].startswith(opening), "open with a comment that says what the file is and is not"


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_examples_are_short_and_have_a_page_and_a_test(path: Path):
    assert len(path.read_text().splitlines()) < 200
    page = ROOT / "docs" / "examples" / f"{path.stem}.md"
    assert f"](../../{relative(path)})" in page.read_text()
    assert f"]({page.name})" in (page.parent / "README.md").read_text(), "the index lists it"
    assert (ROOT / "tests" / "examples" / f"test_{path.name}").is_file()


def test_no_trace_of_a_machine():
    machine = re.compile(r"(?<![\w.])/(work|root|home|tmp|Users)/\w")
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if machine.search(line)
    ]
    assert not found


def test_links_between_pages_lead_somewhere():
    pages = [p for p in text_files() if p.suffix == ".md"]
    plain = {page: re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL) for page in pages}
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", plain[page])]
    assert links and [(relative(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_decisions_have_a_number_each_and_are_listed():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(p for p in folder.glob("*.md") if p.name != "README.md")
    listed = re.findall(r"^- \[(\d{4} .+)\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name in listed] == [p.name for p in pages]
    status = r"(accepted|superseded by \[\d{4}\]\(\d{4}-[\w-]+\.md\))"
    for (title, name), number in zip(listed, range(1, len(pages) + 1), strict=True):
        assert title[:4] == name[:4] == f"{number:04}", f"{name} is listed as {title}"
        text = (folder / name).read_text()
        assert re.match(rf"# {re.escape(title)}\n\nDate: 20\d\d-\d\d-\d\d · Status: {status}\n\n## Context\n", text), (
            name
        )
        _, *sections = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
        allowed = (["Context", "Decision", "Consequences"], ["Context", "Decision", "Alternatives", "Consequences"])
        assert sections[::2] in allowed, f"{name} has the sections {sections[::2]}"
        assert all(body.strip() for body in sections[1::2]), f"{name} has an empty section"


def test_only_its_own_files_need_onednn():
    """Where the library is absent, as on a Mac, onednn_*.cpp are left out; onednn.h says what is known then."""
    cpu = SRC / "backends" / "cpu"
    others = [path for path in cpu.rglob("*") if path.suffix in (".h", ".cpp", ".inc")]
    others = [path for path in others if not path.name.startswith("onednn")]
    wrong = [
        (path.name, include)
        for path in others
        for include in quoted_includes(path)
        if Path(include).name.startswith("onednn_")
    ]
    assert len(others) > 100 and not wrong, wrong


VECTOR_FILES = [p for p in source_files("src/backends/cpu", suffixes={".cpp"}) if re.search(r"_avx(2|512)$", p.stem)]


@pytest.mark.parametrize("path", VECTOR_FILES, ids=lambda p: p.stem)
def test_files_for_an_instruction_set_see_no_graph(path: Path):
    assert len(VECTOR_FILES) > 40
    seen, left = set(), quoted_includes(path)
    while left:
        include = left.pop()
        if include not in seen:
            seen.add(include)
            left += quoted_includes((PUBLIC if include.startswith("mpsgraph/") else SRC) / include)
    graph = {"backends/cpu/kernel.h", "core/definition.h", "mpsgraph/core/graph.h", "mpsgraph/core/builder.h"}
    assert not seen & graph, "loops know numbers only: see `half_types.h` in ARCHITECTURE.md"


def test_nothing_is_compiled_for_the_machine_at_hand():
    flag = "-march=" + "native"
    assert not [relative(p) for p in text_files() if p.name in {"CMakeLists.txt", "Makefile"} and flag in p.read_text()]
    for path in CXX_FILES:
        if re.search(r"_mm256_|_mm512_|__m256|__m512", path.read_text()):
            assert re.search(r"_avx(2|512)\.cpp$|\.inc$", path.name), (
                f"{relative(path)}: vector code stands in *_avx*.cpp"
            )


# --- one name for a family in every layer -----------------------------------------------------------------------------
def stated(folder: str, table: str) -> dict[Path, str]:
    """What each file of a folder enters into a table: its end says `const Family pooling_family("pooling", ...)`."""
    entry = re.compile(rf'^const {table} (\w+)\("(\w+)", \[\]', re.MULTILINE)
    found = {path: entry.findall(path.read_text()) for path in source_files(folder, suffixes={".cpp", ".mm"})}
    found = {path: entries for path, entries in found.items() if entries}
    for path, entries in found.items():
        ending = {"Family": "family", "Kernels": "kernels", "Lowerings": "lowerings"}[table]
        assert [name for name, _ in entries] == [f"{path.stem}_{ending}"], "one block a file, named after it"
    return {path: entries[0][1] for path, entries in found.items()}


STATED = stated("src/core/ops", "Family")
FAMILIES = set(STATED.values())


def belongs_to(stem: str, families) -> bool:
    """`pooling` and `pooling_gradients` belong to pooling."""
    return any(stem == family or stem.startswith(family + "_") for family in families)


def test_families_are_stated_in_files_of_their_name():
    assert "pooling" in FAMILIES
    for path, family in STATED.items():
        assert belongs_to(path.stem, [family]), f"{relative(path)} states {family}"
    assert FAMILIES <= {path.stem for path in STATED}, "the main part of a family has its name alone"


@pytest.mark.parametrize("folder, table", [("src/backends/cpu", "Kernels"), ("src/backends/metal", "Lowerings")])
def test_what_backends_bring_stands_under_the_files_name(folder: str, table: str):
    found = stated(folder, table)
    assert {path.stem for path in found} >= {"pooling", "convolution", "shape"}
    assert {path.stem: name for path, name in found.items()} == {path.stem: path.stem for path in found}


@pytest.mark.parametrize("folder", ["python/mpsgraph/ops", "tests/cases"])
def test_python_files_have_the_families_names(folder: str):
    # Fused operations are made by passes and have no face; that of custom ones, and their tests, are rooms.
    public = FAMILIES - {"fused", "custom"}
    stems = {p.stem for p in (ROOT / folder).glob("*.py") if not p.stem.startswith("_")}
    assert public <= stems, "every family has a file"
    assert not [stem for stem in stems if not belongs_to(stem, public)], "and every file a family"


# --- the rooms of the tests -------------------------------------------------------------------------------------------
TESTS = ROOT / "tests"
TEST_FILES = [
    p for p in source_files("tests", suffixes={".py", ".cpp", ".mm"}) if re.search(r"^test_|_test\.mm$", p.name)
]
MARKER = "pytest.mark.both_devices"


def rooms() -> set[str]:
    """Those that tests/README.md lists, in the first table."""
    page, _, _ = (TESTS / "README.md").read_text().partition("Folders without tests:")
    return set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE))


def test_every_test_file_lies_in_a_room_and_every_room_has_one():
    places = {relative(p.parent) for p in TEST_FILES} - {"tests/mock/tests"}  # the mock has its own
    assert places == {f"tests/{room}" for room in rooms()}, "a new room needs a line in tests/README.md"


def test_every_folder_of_the_tests_is_explained():
    listed = set(re.findall(r"^\| `(\w+)/` \|", (TESTS / "README.md").read_text(), re.MULTILINE))
    assert listed == {p.name for p in TESTS.iterdir() if p.is_dir() and p.name != "__pycache__"}


@pytest.mark.parametrize("path", [p for p in TEST_FILES if p.suffix == ".py"], ids=relative)
def test_a_marker_says_what_runs_on_device_metal(path: Path):
    text = path.read_text()
    if path.parent.name == "metal":
        assert MARKER not in text, "all of the room metal runs on device metal, and nowhere else"
    elif re.search(r"\bIS_METAL\b", text) and path != Path(__file__).resolve():
        assert MARKER in text, "asks for the device, but runs on the CPU only"


def test_no_list_of_files_says_what_runs_on_device_metal():
    assert not re.findall(r"\btest_\w+(?:\.py)?\b", (TESTS / "conftest.py").read_text())


# --- the rooms of the Python package ----------------------------------------------------------------------------------
PYTHON = ROOT / "python" / "mpsgraph"

# Each room or module may import itself and what stands in a row below; those of one row do not see each other. A part
# that stands higher than its room has an entry of its own.
ROOMS = [
    ["__main__"],
    ["cli", "tool"],
    ["selftest"],
    ["demo"],  # programs, which use the package as anybody does
    ["mpsgraph"],  # the package's own names
    ["torch", "jax"],
    ["packages"],
    ["coreml", "onnx", "training"],
    ["interchange"],
    ["distributed", "precision.layer_precision"],  # measures layers, so above them
    ["custom", "data", "model", "nn", "nngraph", "optim", "profiler", "tensor"],
    ["graph", "quantization"],
    ["ops"],
    ["_tensor_data", "pictures", "precision", "random"],
    ["_checks", "_dtypes"],
    ["_core_docstrings", "_display", "_loader", "_optional", "errors"],
    ["_core"],
]


def python_modules() -> dict[str, Path]:
    """The package's modules by name, with the compiled one, of which the stub is there."""
    found = {}
    for path in [*PYTHON.rglob("*.py"), PYTHON / "_core.pyi"]:
        parts = path.relative_to(PYTHON.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = python_modules()


def imports_of(name: str) -> set[str]:
    """The modules of the package that one imports: at its top, in functions, and for type checkers.

    Who imports a module from outside of its package imports that package, too, which runs first.
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


def room_of(name: str) -> tuple[int, str]:
    """The row of a module and its entry there: the longest that names it or a package around it."""
    inside = f"{name.removeprefix('mpsgraph.')}."
    fitting = [(row, entry) for row, entries in enumerate(ROOMS) for entry in entries if inside.startswith(f"{entry}.")]
    assert fitting, f"{name} belongs to no room: say in ROOMS what it may import"
    return max(fitting, key=lambda found: len(found[1]))


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("mpsgraph.graph", "mpsgraph._core"),  # from . import
        ("mpsgraph.cli", "mpsgraph.selftest"),  # in a function
        ("mpsgraph.nn.module", "mpsgraph.graph"),  # for type checkers
        ("mpsgraph.ops._family", "mpsgraph.precision"),  # the package around what is imported
        ("mpsgraph.demo.digits", "mpsgraph"),  # import
    ],
)
def test_imports_are_seen(name: str, imported: str):
    assert imported in IMPORTS[name]


def test_python_modules_do_not_import_in_circles():
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_python_imports_go_down(name: str):
    row, own = room_of(name)
    for imported in IMPORTS[name]:
        below, other = room_of(imported)
        assert own == other or row < below, f"{own} may not import {imported}"


def test_every_room_is_there():
    assert {entry for entries in ROOMS for entry in entries} == {room_of(name)[1] for name in MODULES}
