"""Check our Objective-C++ code against Apple's interfaces.

The facts must be consistent, the Metal backend must compile for the oldest supported macOS with every newer name behind
an availability check, and each kind of incorrect use must fail to compile. The compiler is zig's clang with an Apple
target (tests/apple/apple_target.py). The compiled code is not run.
"""

import re
from collections import Counter
from pathlib import Path

import apple_target
import declarations
import pytest
import used_interfaces
import witnesses

pytestmark = pytest.mark.begins_early

FACTS = declarations.read()
ALL = [fact for facts in FACTS.values() for fact in facts]
OLDEST = tuple(int(part) for part in apple_target.OLDEST.split("."))


@pytest.fixture(scope="module")
def target() -> apple_target.AppleTarget:
    """Return the target, whose build directory is kept between runs so that unchanged files are not recompiled."""
    return apple_target.AppleTarget(apple_target.ROOT / "build" / "apple-arm64")


@pytest.fixture(scope="module")
def compile_text(tmp_path_factory, target):
    """Return a function that compiles Objective-C++ statements using a graph, tensors, and a device, and
    returns diagnostics.
    """
    directory = tmp_path_factory.mktemp("apple")
    options = target.headers()
    compiled = 0

    def compile(statements: str) -> str:
        nonlocal compiled
        compiled += 1
        source = directory / f"statements{compiled}.mm"
        source.write_text(
            "#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>\n"
            "id use(MPSGraph *g, MPSGraphTensor *x, id<MTLDevice> device) {\n  (void)g, (void)x, (void)device;\n"
            f"{statements}\n"
            "}\n"
        )
        return target.compile_source(source, source.with_suffix(".o"), options)

    return compile


def test_interface_facts_include_main_classes_and_most_graph_methods():
    graph = next(fact for fact in FACTS["graph"] if fact.kind == "category" and fact.name == "MPSGraph")
    main = next(fact for fact in FACTS["graph"] if fact.kind == "class" and fact.name == "MPSGraph")
    assert sum(len(f.members) for f in (graph, main)) > 380  # MPSGraph has that many methods
    assert {fact.name for fact in ALL} >= {"MTLDevice", "MPSNDArray", "MPSGraphExecutable", "MPSDataType"}


def test_interface_facts_and_their_members_are_unique():
    top = Counter((fact.kind, fact.name) for fact in ALL)
    assert [name for name, count in top.items() if count > 1] == []
    for fact in ALL:
        members = Counter(member.name for member in fact.members)
        assert [name for name, count in members.items() if count > 1] == [], fact.name
    constants = Counter(member.name for fact in ALL for member in fact.members if member.kind == "value")
    assert [name for name, count in constants.items() if count > 1] == []


def test_macos_versions_of_interface_facts_are_valid():
    for fact in (each for owner in ALL for each in [owner, *owner.members]):
        assert re.fullmatch(declarations.VERSION, fact.first)
        assert (10, 11) <= fact.version < (27, 0), f"{fact.name} {fact.first}"
        if fact.last:
            assert tuple(map(int, fact.last.split("."))) > fact.version, fact.name


def test_interface_members_are_not_older_than_their_class():
    for owner in ALL:
        for member in owner.members:
            assert member.version >= owner.version or owner.kind == "options", f"{owner.name} {member.name}"


def test_headers_declare_every_type_they_use(compile_text):
    """The headers must compile without other declarations, so an undeclared type would be an error."""
    assert compile_text("return nil;") == ""


def test_invalid_interface_fact_raises(tmp_path):
    path = tmp_path / "metal.txt"
    path.write_text("11 class MTLThing : NSObject\n")
    with pytest.raises(SystemExit, match="invalid line"):
        declarations.parse(path)


GOOD = {
    "an operation": "return [g additionWithPrimaryTensor:x secondaryTensor:x name:nil];",
    "a newer operation behind a check": """
      if (@available(macOS 14.0, *)) {
        return [g HermiteanToRealFFTWithTensor:x axes:@[ @1 ] descriptor:[MPSGraphFFTDescriptor descriptor] name:nil];
      }
      return nil;""",
    "a newer constant behind a check": """
      if (@available(macOS 14.0, *)) {
        return [g castTensor:x toType:MPSDataTypeBFloat16 name:@"y"];
      }
      return nil;""",
}


@pytest.mark.parametrize("statements", GOOD.values(), ids=GOOD)
def test_correct_api_use_compiles(compile_text, statements):
    assert compile_text(statements) == ""


WRONG = {
    "selector": ("return [g additionWithTensor:x secondaryTensor:x name:nil];", "additionWithTensor"),
    "argument": (
        "return [g additionWithPrimaryTensor:@1 secondaryTensor:x name:nil];",
        "cannot initialize a parameter",
    ),
    "result": ("NSString *s = [g squareWithTensor:x name:nil]; return s;", "cannot initialize a variable"),
    "class": ("return [MPSGraphFourierDescriptor new];", "undeclared identifier"),
    "constant": ("return @(MPSGraphPaddingModeWrap);", "undeclared identifier"),
    "property": ("return device.vendor;", "property 'vendor' not found"),
    "read-only property": ('x.operation.name = @"y"; return x;', "readonly"),
    "nil where an object must be": ("return [g squareWithTensor:nil name:nil];", "null passed to a callee"),
    "newer selector without a check": ("return [g conjugateWithTensor:x name:nil];", "only available on macOS 14.0"),
    "newer class without a check": ("return [MPSGraphFFTDescriptor descriptor];", "only available on macOS 14.0"),
    "newer constant without a check": ("return @(MPSDataTypeBFloat16);", "only available on macOS 14.0"),
    "a check of too old a version": (
        "if (@available(macOS 13.4, *)) return @(MPSDataTypeBFloat16);\nreturn nil;",
        "only available on macOS 14.0",
    ),
}


@pytest.mark.parametrize(("statements", "message"), WRONG.values(), ids=WRONG)
def test_incorrect_api_use_does_not_compile(compile_text, statements, message):
    diagnostics = compile_text(statements)
    assert message in diagnostics
    assert "error" in diagnostics


@pytest.fixture(scope="module")
def backend(target) -> dict[Path, str]:
    return target.compile_metal()


def test_metal_backend_compiles_for_oldest_macos(backend):
    assert apple_target.metal_sources()
    assert not backend, "\n".join(backend.values())


def test_used_apple_names_are_listed_with_macos_versions(backend, target):
    assert not backend
    lines = used_interfaces.report(target.objects(), apple_target.metal_sources())
    (target.build / "used.txt").write_text("".join(f"{line}\n" for line in lines))
    assert len(lines) > 100
    assert any("selector additionWithPrimaryTensor:secondaryTensor:name: of MPSGraph" in line for line in lines)
    for line in lines:
        assert re.match(r"\d+\.\d+ (class|protocol|enum|options|struct|typedef|function|constant|selector) \S", line), (
            line
        )
    kinds = Counter(line.split()[1] for line in lines)
    newer = sum(tuple(map(int, line.split()[0].split("."))) > OLDEST for line in lines)
    print(f"{len(lines)} names of Apple's frameworks, {newer} newer than macOS {apple_target.OLDEST}: {dict(kinds)}")


# --- witnesses.txt ----------------------------------------------------------------------------------------------------
ROWS = witnesses.rows()


def test_table_of_known_uses_has_at_most_one_row_per_apple_name():
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name[:60])
def test_table_of_known_uses_refers_to_existing_probes_and_sources(row):
    assert set(row.probes) <= witnesses.probes()
    if row.kind == "witness":
        for witness in row.witnesses:
            source, place = witness.split(" ", 1)
            assert source in witnesses.sources() and re.search(r"/|\d", place)
    elif row.kind in ("open", "ours", "unsent"):
        assert row.witnesses == (row.kind,) and len(row.remark.split()) > 3, "the row must state a reason"


def test_table_of_known_uses_refers_to_every_listed_source():
    named = {witness.split()[0] for row in ROWS for witness in row.witnesses}
    assert witnesses.sources().keys() <= named


def test_every_used_apple_name_has_a_known_use_probe_or_reason(backend, target):
    """A new name in the list of test_used_apple_names_are_listed_with_macos_versions needs a row in witnesses.txt."""
    assert not backend
    listed = used_interfaces.report(target.objects(), apple_target.metal_sources())
    found = [re.match(r"\S+ (selector|constant|function) (\S+)", line) for line in listed]
    names = {match[2] for match in found if match}
    assert sorted(names - {row.name for row in ROWS}) == [], "add rows for these names to witnesses.txt"
    assert sorted({row.name for row in ROWS} - names) == [], "remove the rows of unused names from witnesses.txt"


def test_at_least_95_percent_of_selectors_have_known_use_or_probe():
    kinds = Counter(row.kind for row in ROWS if row.is_selector)
    needed = kinds["witness"] + kinds["probe"] + kinds["open"]
    print(f"{needed} selectors: {kinds}")
    assert kinds["witness"] + kinds["probe"] >= 0.95 * needed
    assert kinds["witness"] >= 0.7 * needed
