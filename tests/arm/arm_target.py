"""Cross-compile the wheel and the C++ tests for 64-bit Arm on Linux, and run both under qemu.

`make arm` runs everything. The compiler is zig's clang (`pip install ziglang`), which brings a C library of every
version, so the wheel runs on systems as old as manylinux_2_28. The Python that imports it, and the C library of the
tests, are Debian's packages for arm64; apt only downloads them. qemu (Debian's package qemu-user-static) emulates three
processors:

    cortex-a72    Armv8.0, as in a Raspberry Pi 4: no extensions
    neoverse-n1   Armv8.2 with dot products of bytes, as in Graviton2; Apple's M1 has the same extensions
    max           everything that qemu knows, with BF16 and I8MM, as in Graviton3 and Apple's M2

Emulation is ten to fifty times slower than a processor, so nothing is timed here.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLIBC = "2.28"
PROCESSORS = ("max", "neoverse-n1", "cortex-a72")
PYTHON = "3.11"
DEBIAN = [
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
    *("libc6", "libgcc-s1", "libstdc++6", "libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libssl3"),
    *("libuuid1", "libsqlite3-0"),
]
WHEELS = [
    *("numpy", "ml_dtypes", "pytest", "pytest-xdist", "hypothesis"),
    *("tqdm", "safetensors", "matplotlib", "pillow", "onnx", "scikit-learn"),
]
TESTS = ["tests/operations", "tests/nn", "tests/compiler", "tests/cpu", "tests/training"]
"""The Python tests that `--only python` runs unless the command line names others."""


def run(command: list[str | Path], **arguments: object) -> subprocess.CompletedProcess:
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run(command, check=True, **arguments)  # type: ignore[call-overload]


def tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        sys.exit(f"{name} is not on the PATH; install Debian's package {package}")
    return found


class ArmTarget:
    """The folder for everything built for Arm, and the steps that fill it."""

    def __init__(self, build: Path) -> None:
        self.build = build
        self.root, self.site = build / "root", build / "site"
        build.mkdir(parents=True, exist_ok=True)

    # ---- cross-compilation

    def toolchain(self) -> Path:
        """Write compiler wrappers and a CMake toolchain file."""
        found = importlib.util.find_spec("ziglang")
        if found is None or found.origin is None:
            sys.exit(f"{sys.executable} has no ziglang; run: {sys.executable} -m pip install ziglang")
        zig = Path(found.origin).parent / "zig"
        target = f"-target aarch64-linux-gnu.{GLIBC} -fno-sanitize=all"
        for name, command in {"cc": f"cc {target}", "c++": f"c++ {target}", "ar": "ar", "ranlib": "ranlib"}.items():
            wrapper = self.build / f"zig-{name}"
            # zig does not know -march=armv8.2-a, and calls the same instructions v8_2a.
            wrapper.write_text(
                "#!/bin/sh\nfor argument; do\n  shift\n"
                '  case "$argument" in\n'
                "    -march=armv8.2-a*) argument=-mcpu=generic+v8_2a${argument#-march=armv8.2-a} ;;\n  esac\n"
                '  set -- "$@" "$argument"\ndone\n'
                f'exec "{zig}" {command} "$@"\n'
            )
            wrapper.chmod(0o755)
        file = self.build / "toolchain.cmake"
        file.write_text(
            "set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR aarch64)\n"
            f"set(CMAKE_C_COMPILER {self.build}/zig-cc)\nset(CMAKE_CXX_COMPILER {self.build}/zig-c++)\n"
            f"set(CMAKE_AR {self.build}/zig-ar)\nset(CMAKE_RANLIB {self.build}/zig-ranlib)\n"
        )
        return file

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "ZIG_GLOBAL_CACHE_DIR": str(self.build / "zig-cache"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def wheel(self) -> Path:
        """Build the wheel, check which glibc it needs, and tag it manylinux."""
        suffix = f".cpython-{PYTHON.replace('.', '')}-aarch64-linux-gnu.so"
        if not sys.version.startswith(f"{PYTHON}."):
            sys.exit(f"a wheel for Python {PYTHON} needs the headers of that version; run this with Python {PYTHON}")
        settings = {
            "cmake.define.CMAKE_TOOLCHAIN_FILE": self.toolchain(),
            "cmake.define.PYTHON_MODULE_EXTENSION": suffix,
            "cmake.define.MPSGRAPH_COMPLETE_MODULE": "ON",  # because zig links libc++ into each library
            "cmake.define.MPSGRAPH_BUILD_TESTS": "ON",  # so that cpp() need not compile everything again
            "build-dir": self.build / "cmake",
        }
        wheels = self.build / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        cross = {"_PYTHON_HOST_PLATFORM": "linux-aarch64", "SETUPTOOLS_EXT_SUFFIX": suffix}
        options = [part for name, value in settings.items() for part in ("-C", f"{name}={value}")]
        pip: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        run([*pip, "-w", wheels, *options, ROOT], env=self.environment | cross, cwd=self.build)
        [made] = wheels.glob("*.whl")
        unpacked = self.build / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        with zipfile.ZipFile(made) as archive:
            archive.extractall(unpacked)
        if not (unpacked / "mpsgraph" / f"_core{suffix}").exists():
            sys.exit(f"{made.name} has no _core{suffix}")
        for library in unpacked.rglob("*.so*"):
            text = library.read_bytes()
            if text[18:20] != b"\xb7\x00":  # e_machine: EM_AARCH64
                sys.exit(f"{library.name} is not a library for 64-bit Arm")
            wanted = {tuple(map(int, v.split(b"."))) for v in re.findall(rb"GLIBC_(2\.\d+)", text)}
            newest = max(wanted, default=(0,))
            if newest > tuple(map(int, GLIBC.split("."))):
                sys.exit(f"{library.name} needs glibc {newest}, expected at most {GLIBC}")
        tag = f"manylinux_{GLIBC.replace('.', '_')}_aarch64"
        run([sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, made])
        [made] = wheels.glob("*.whl")
        print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB")
        return made

    # ---- emulation

    def system(self) -> None:
        """Unpack an arm64 Python with the packages that the tests need."""
        if not (self.root / "usr" / "bin" / f"python{PYTHON}").exists():
            debs = self.build / "debs"
            (debs / "lists" / "partial").mkdir(parents=True, exist_ok=True)
            apt = ["-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
            apt += ["-o", f"Dir::State::Lists={debs}/lists"]
            run(["apt-get", "-q", *apt, "update"], cwd=debs, stdout=subprocess.DEVNULL)
            run(["apt-get", "-q", *apt, "download", *DEBIAN], cwd=debs, stdout=subprocess.DEVNULL)
            for package in sorted(debs.glob("*.deb")):
                run(["dpkg", "-x", package, self.root])
        if not self.site.exists():
            wheels = self.build / "foreign"
            platforms = [f"manylinux_2_{minor}_aarch64" for minor in (17, 24, 26, 27, 28)] + ["manylinux2014_aarch64"]
            command: list[str | Path] = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:"]
            command += ["--python-version", PYTHON, "--implementation", "cp", "-d", wheels]
            run([*command, *(part for name in platforms for part in ("--platform", name)), *WHEELS])
            for wheel in wheels.glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(self.site)

    def emulated(self, processor: str) -> dict[str, str]:
        """Return the environment in which processes started by emulated processes are emulated, too."""
        return os.environ | {
            "QEMU_LD_PREFIX": str(self.root),
            "QEMU_CPU": processor,
            "PYTHONPATH": os.pathsep.join(map(str, (self.build / "unpacked", self.site))),
            "OMP_NUM_THREADS": "2",
            # numpy's OpenBLAS warns of divisions by zero in its kernels for SVE under qemu, and is slow with them.
            "OPENBLAS_CORETYPE": "ARMV8",
        }

    def qemu(self) -> str:
        """Return qemu, registered with the kernel if possible, so that tests can start processes."""
        found = shutil.which("qemu-aarch64-static") or tool("qemu-aarch64", "qemu-user-static")
        registered = Path("/proc/sys/fs/binfmt_misc")
        if not (registered / "qemu-aarch64").exists() and (registered / "register").exists():
            magic = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
            mask = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
            try:
                (registered / "register").write_text(f":qemu-aarch64:M::{magic}:{mask}:{found}:F")
            except OSError as failure:
                print(f"tests that start processes will fail, because qemu cannot be registered: {failure}")
        return found

    def cpp(self, processors: list[str], tests: list[str]) -> None:
        """Run the C++ tests, one file at a time."""
        program = self.build / "cmake" / "mpsgraph_tests"
        tests = tests or sorted(path.stem for path in (ROOT / "tests" / "cpp").glob("test_*.cpp"))
        failed = []
        for processor in processors:
            for test in tests:
                done = subprocess.run([self.qemu(), program, test], env=self.emulated(processor), cwd=self.build)
                if done.returncode != 0:
                    failed.append(f"{test} on {processor} (exit status {done.returncode})")
        if failed:
            sys.exit("failed: " + ", ".join(failed))

    def python(self, processors: list[str], tests: list[str], workers: int) -> None:
        """Run the Python tests. Several workers need a qemu that is registered with the kernel."""
        interpreter = self.root / "usr" / "bin" / f"python{PYTHON}"
        shared = ["-n", str(workers), "--dist", "loadfile", "--max-worker-restart=0"] if workers > 1 else []
        failed = []
        for processor in processors:
            command: list[str | Path] = [self.qemu(), interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += [*shared, "-m", "not slow", *(tests or TESTS)]
            print("+", processor, *command, flush=True)
            if subprocess.run(command, env=self.emulated(processor), cwd=ROOT).returncode != 0:
                failed.append(processor)
        if failed:
            sys.exit(f"Python tests failed on {', '.join(failed)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "arm64")
    parser.add_argument("--only", choices=("wheel", "cpp", "python"), help="run one step; the others must have run")
    parser.add_argument("--processors", nargs="+", default=list(PROCESSORS), help="names that qemu knows")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the Python tests")
    parser.add_argument("tests", nargs="*", help="names of C++ test files, or paths and options for pytest")
    options = parser.parse_args()
    target = ArmTarget(options.build.resolve())
    if options.only in (None, "wheel"):
        target.wheel()
    if options.only in (None, "cpp"):
        target.system()
        target.cpp(options.processors, options.tests if options.only else [])
    if options.only in (None, "python"):
        target.system()
        target.python(options.processors, options.tests if options.only else [], options.workers)


if __name__ == "__main__":
    main()
