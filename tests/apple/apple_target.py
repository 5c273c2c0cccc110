"""Builds the project for macOS 13.3 on any machine. No Apple software is needed, and the result is not run.

    python tests/apple/apple_target.py               # everything, and the C++ tests, linked, for both architectures
    python tests/apple/apple_target.py --only metal  # only src/backends/metal, compiled, in seconds
    python tests/apple/apple_target.py --architecture arm64    # only for Apple silicon, not for Intel Macs

The compiler and linker is zig's clang (`pip install ziglang`), which includes Apple's C and C++ headers. The headers of
Foundation are those of the mock; the headers of the other frameworks are generated from interfaces/, as are the stub
libraries that tell the linker which framework exports which name. A selector, type, or constant that does not exist in
Apple's interfaces is therefore an error, and so is one newer than macOS 13.3 without an availability check.
"""

import argparse
import functools
import importlib.util
import itertools
import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import declarations
import used_interfaces

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
METAL = ROOT / "src" / "backends" / "metal"
FOUNDATION = HERE.parent / "mock" / "include"
OLDEST = "13.3"
BATCH = 48  # files
PROCESSORS = {"arm64": ("aarch64", 0x0100000C), "x86_64": ("x86_64", 0x01000007)}  # zig's name and Mach-O's number
# zig's C++ library offers all its features for every macOS version, while Apple's declares which version introduced a
# feature. With these options zig's does, too: std::from_chars for floating-point numbers, new in macOS 26, is an error.
AVAILABILITY = [f"-{action}_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS" for action in "UD"]
UNOPTIMIZED = ["-O0", "-fno-sanitize=all"]  # zig's clang adds sanitizers to unoptimized code by default.
OBJECTIVE_CXX = ["-std=c++20", "-fobjc-arc", "-fobjc-arc-exceptions", "-fblocks"]
WARNINGS = [
    *("-Wall", "-Wextra", "-Werror", "-Wno-nullability-completeness"),
    *("-Wunguarded-availability", "-Wunguarded-availability-new"),
]


def zig() -> Path:
    found = importlib.util.find_spec("ziglang")
    if found is None:
        sys.exit(f"{sys.executable} has no ziglang; run: {sys.executable} -m pip install ziglang")
    return Path(found.origin).parent / "zig"


# Symbols of clang's runtime library on Apple systems that zig's does not have. __builtin_cpu_supports uses them on
# Intel.
COMPILER_RUNTIME = ["__cpu_indicator_init", "__cpu_model"]


def stub(name: str, architecture: str, classes: list[str], symbols: list[str], exceptions: list[str]) -> str:
    """Return the text of a stub library that only lists its exports, as in Apple's SDK (TAPI version 4)."""
    lists = {"symbols": [f"'_{s}'" for s in symbols], "objc-classes": classes, "objc-eh-types": exceptions}
    exports = "".join(f"    {key}: [ {', '.join(sorted(names))} ]\n" for key, names in lists.items() if names)
    return (
        "--- !tapi-tbd\ntbd-version: 4\n"
        f"targets: [ {architecture}-macos ]\n"
        f"install-name: '/System/Library/Frameworks/{name}.framework/Versions/A/{name}'\n"
        f"exports:\n  - targets: [ {architecture}-macos ]\n{exports}...\n"
    )


@functools.cache
def json_headers() -> Path | None:
    """Find nlohmann-json in the same way as the build."""
    located = subprocess.run(
        [sys.executable, ROOT / "cmake" / "locate.py"], capture_output=True, text=True, check=True
    ).stdout
    return next((Path(line.split("=", 1)[1]) for line in located.splitlines() if line.startswith("json=")), None)


def metal_sources() -> list[Path]:
    return sorted(METAL.rglob("*.mm"))


@dataclass(frozen=True)
class AppleTarget:
    """A processor architecture of Apple systems, and the directory for everything built for it."""

    build: Path
    architecture: str = "arm64"

    @property
    def triple(self) -> str:
        return f"{PROCESSORS[self.architecture][0]}-macos.{OLDEST}"

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment in which zig caches its output, including the C++ library, in the build directory."""
        return {"ZIG_GLOBAL_CACHE_DIR": str(self.build / "zig-cache")} | os.environ

    def headers(self) -> list[str]:
        """Write the framework headers, and return compiler options that find them and Foundation's after
        Apple's own headers.
        """
        declarations.write(self.build / "include", declarations.read())
        return [f"-I{self.build / 'include'}", "-idirafter", str(FOUNDATION)]

    def frameworks(self) -> Path:
        """Write the stub libraries."""
        facts = declarations.read()
        exported = {
            framework: (
                [f.name for f in facts[name] if f.kind == "class"],
                [f.name for f in facts[name] if f.kind in ("function", "constant")],
                [],
            )
            for name, framework in declarations.FRAMEWORKS.items()
        }
        kinds: dict[str, list[str]] = {"class": [], "symbol": [], "exception": []}
        for line in (HERE / "interfaces" / "exports.txt").read_text().splitlines():
            if not line.startswith("#"):
                kind, name = line.split()
                kinds[kind].append(name)
        exported["Foundation"] = (kinds["class"], kinds["symbol"], kinds["exception"])
        exported["CoreGraphics"] = ([], [], [])  # linked only for the effects of loading it
        for name, parts in exported.items():
            path = self.build / "frameworks" / f"{name}.framework" / f"{name}.tbd"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(stub(name, self.architecture, *parts))
        runtime = stub("clang_rt", self.architecture, [], COMPILER_RUNTIME, [])
        (self.build / "frameworks" / "libclang_rt.tbd").write_text(runtime)
        return self.build / "frameworks"

    def compile_source(self, source: Path, output: Path, options: list[str], language: str = "objective-c++") -> str:
        """Compile one Objective-C++ file, and return the diagnostics, or an empty string if there are none."""
        json = json_headers()
        includes = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", *(["-isystem", str(json)] if json else [])]
        command = [
            zig(),
            "c++",
            "-target",
            self.triple,
            *("-x", language),
            *OBJECTIVE_CXX,
            *AVAILABILITY,
            *UNOPTIMIZED,
            "-g0",
            *WARNINGS,
            *includes,
            *options,
        ]
        output.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [*map(str, command), "-c", str(source), "-o", str(output)],
            env=self.environment,
            capture_output=True,
            text=True,
        )
        return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip() or f"exit code {done.returncode}"

    def precompiled(self, options: list[str]) -> list[str]:
        """Return compiler options for a precompiled header, or none if the header has errors, because compiling the
        files reports them again.

        Parsing the header takes half of a file's compile time.
        """
        header = ROOT / "src" / "backends" / "metal" / "formula.h"
        made = self.build / "formula.pch"
        diagnostics = self.compile_source(header, made, options, language="objective-c++-header")
        return [] if diagnostics else ["-include-pch", str(made)]

    def batches(self) -> dict[Path, list[Path]]:
        """Return groups of files in a folder that are compiled as one, like CMake's unity builds on other machines.

        Most of a small file's compile time goes into headers and the templates that all files use. Probes, which are
        separate programs, define the same names and are not mixed with other files. Diagnostics still name the original
        file.
        """
        found: dict[Path, list[Path]] = {}

        def place(source: Path) -> tuple[Path, bool]:
            return source.parent, source.name.startswith("probes_")

        sources = sorted(metal_sources(), key=lambda source: (place(source), source.name))
        for (folder, _), files in itertools.groupby(sources, key=place):
            members = list(files)
            for first in range(0, len(members), BATCH):
                batch = members[first : first + BATCH]
                found[self.build / "batches" / folder.relative_to(METAL) / batch[0].name] = batch
        return found

    def objects(self) -> list[Path]:
        """Return the object files that compile_metal creates."""
        return [batch.with_suffix(".o") for batch in self.batches()]

    def compile_metal(self) -> dict[Path, str]:
        """Compile the Metal backend, and return the diagnostics of each batch that has any."""
        self.build.mkdir(parents=True, exist_ok=True)
        options, batches = self.headers(), self.batches()
        for batch, sources in batches.items():
            batch.parent.mkdir(parents=True, exist_ok=True)
            batch.write_text("".join(f'#include "{source}"\n' for source in sources))
        options += self.precompiled(options)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            found = pool.map(lambda batch: self.compile_source(batch, batch.with_suffix(".o"), options), batches)
            return {batch: text for batch, text in zip(batches, found, strict=True) if text}

    def compiler(self, language: str) -> Path:
        """Write a script that calls clang for the target. The language is zig's name: "cc" for C, or "c++".

        zig's linker cannot create bundles, but a Python module may also be a dylib. zig does not know -march=armv8.2-a,
        and calls the same instructions v8_2a. Nothing runs, so nothing is optimized, which takes less than half of the
        time.
        """
        script = self.build / f"zig-{language}"
        script.write_text(
            "#!/bin/sh\nfor argument; do\n  shift\n"
            '  case "$argument" in\n    -bundle) argument=-shared ;;\n'
            "    -march=armv8.2-a*) argument=-mcpu=generic+v8_2a${argument#-march=armv8.2-a} ;;\n  esac\n"
            '  set -- "$@" "$argument"\ndone\n'
            f'exec "{zig()}" {language} -target {self.triple} "$@" {" ".join(UNOPTIMIZED)}\n'
        )
        script.chmod(0o755)
        return script

    def toolchain(self) -> Path:
        path, wrapper = self.build / "toolchain.cmake", self.compiler("c++")
        path.write_text(
            f"set(CMAKE_SYSTEM_NAME Darwin)\nset(CMAKE_SYSTEM_PROCESSOR {self.architecture})\n"
            f"set(CMAKE_C_COMPILER {self.compiler('cc')})\nset(CMAKE_CXX_COMPILER {wrapper})\n"
            f"set(CMAKE_OBJCXX_COMPILER {wrapper})\n"
            'set(CMAKE_OSX_SYSROOT "")\nset(CMAKE_INSTALL_NAME_TOOL /bin/true)\n'
            # find only libraries of this machine that are given by path
            "set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)\n"
        )
        return path

    def build_everything(self) -> list[Path]:
        """Configure with CMake, build, and return the libraries."""
        self.build.mkdir(parents=True, exist_ok=True)
        tree = self.build / "tree"
        configure = [
            "cmake",
            "-S",
            ROOT,
            "-B",
            tree,
            "-G",
            "Ninja",
            "-DMPSGRAPH_BUILD_TESTS=ON",
        ]
        configure += [f"-DCMAKE_TOOLCHAIN_FILE={self.toolchain()}", f"-DPython_EXECUTABLE={sys.executable}"]
        # g++ has too many false positives for this warning. It is an error only here, so that newer compilers do not
        # break users' builds.
        flags = [*AVAILABILITY, "-Werror=uninitialized"]
        configure += [f"-DCMAKE_CXX_FLAGS={' '.join(flags)}"]
        configure += [f"-DCMAKE_OBJCXX_FLAGS={' '.join([*AVAILABILITY, *self.headers()])}"]
        stubs = self.frameworks()
        for linked in ("SHARED", "EXE"):
            configure += [f"-DCMAKE_{linked}_LINKER_FLAGS=-F{stubs} -L{stubs} -lclang_rt"]
        # One compiler per processor: ninja's default of two more compete for caches. It compiles all files even if some
        # have errors.
        parallel = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        for command in (configure, ["cmake", "--build", tree, "--parallel", parallel, "--", "-k", "0"]):
            subprocess.run([str(part) for part in command], env=self.environment, check=True)
        made = [tree / "libmpsgraph.dylib", *tree.glob("_core*.so"), tree / "mpsgraph_tests"]
        for path in made:
            self.check(path)
        return made

    def check(self, path: Path) -> None:
        """Check the processor, the minimum macOS version, and the dependencies of a library."""
        data = path.read_bytes()
        magic, processor, _, _, commands = struct.unpack_from("<5I", data)
        if magic != 0xFEEDFACF or processor != PROCESSORS[self.architecture][1]:
            sys.exit(f"{path}: not a 64-bit Mach-O file for {self.architecture}")
        at, oldest, loaded = 32, None, ""
        for _ in range(commands):
            kind, size = struct.unpack_from("<2I", data, at)
            if kind == 0x32:  # LC_BUILD_VERSION
                encoded = struct.unpack_from("<4I", data, at)[3]
                oldest = f"{encoded >> 16}.{encoded >> 8 & 255}"
            elif kind == 0xC:  # LC_LOAD_DYLIB
                loaded += data[at + 24 : at + size].rstrip(b"\0").decode() + "\n"
            at += size
        if oldest != OLDEST:
            sys.exit(f"{path}: made for macOS {oldest}, not {OLDEST}")
        for framework in declarations.FRAMEWORKS.values() if path.name.startswith("libmpsgraph") else ():
            if f"/{framework}.framework/" not in loaded:
                sys.exit(f"{path}: does not load {framework}")


def compile_only_metal(target: AppleTarget) -> bool:
    """Compile the Metal backend, print the diagnostics, and return whether it succeeded."""
    start = time.monotonic()
    failures = target.compile_metal()
    for text in failures.values():
        print(f"{text}\n")
    print(
        f"{len(metal_sources())} files in {len(target.objects())} batches for {target.triple}: {len(failures)} "
        f"batches failed, {time.monotonic() - start:.1f} s"
    )
    if failures:
        return False
    lines = used_interfaces.report(target.objects(), metal_sources())
    (target.build / "used.txt").write_text("".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} names of Apple's frameworks are used, see {target.build / 'used.txt'}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["metal"], help="compile only the Metal backend")
    parser.add_argument("--architecture", choices=PROCESSORS, help="build only for this architecture (default: both)")
    parsed = parser.parse_args()
    failed = False
    for architecture in [parsed.architecture] if parsed.architecture else PROCESSORS:
        target = AppleTarget((ROOT / "build" / f"apple-{architecture}").resolve(), architecture)
        if parsed.only:
            failed |= not compile_only_metal(target)
            continue
        start = time.monotonic()
        for path in target.build_everything():
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
        print(f"built for {target.triple} in {time.monotonic() - start:.0f} s", flush=True)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
