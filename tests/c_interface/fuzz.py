"""Fuzzer that calls every function of the C API with NULL, released, foreign, and invented handles.

Usage: python fuzz.py LIBRARY FUNCTION_TABLE_H SEED CALLS DIRECTORY. Exits with 0 unless a call crashes. Memory passed
to functions is valid and large enough, which the API cannot check. DIRECTORY contains the package of a trainer,
trained.mpsgraph.
"""

import ctypes
import os
import random
import re
import sys
from collections import Counter
from pathlib import Path

HANDLES = "device array graph tensor operation attributes executable execution queue command_buffer event trainer"
ROOM = 1 << 16
Words = ctypes.c_uint64 * (ROOM // 8)
COMPLETION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)


class Fuzzer:
    def __init__(self, library: str, table: str, seed: int, directory: Path):
        self.library = ctypes.CDLL(library)
        found = re.findall(r"mpsgraph_status \(\*(\w+)\)\((.*?)\);", Path(table).read_text(), re.DOTALL)
        spaced = [(name, re.sub(r"\s*(\*+)", r" \1", arguments)) for name, arguments in found]
        self.functions = {name: [" ".join(a.split()) for a in arguments.split(",")] for name, arguments in spaced}
        self.random = random.Random(seed)
        self.directory = directory
        self.trained = str(directory / "trained.mpsgraph").encode()
        self.pool = [0, 1, 8, 0xDEADBEEF, (1 << 32) + 8, 1 << 40, (1 << 63) + 16]
        self.kept = []  # memory used by arrays
        self.completion = COMPLETION(lambda *_: None)
        self.statuses = Counter()

    def seeds(self) -> None:
        """Create a valid handle of each kind, and a released one."""
        text = b"graph {\n  %x = placeholder() {type=float32[2]} : float32[2]\n  %y = relu(%x) : float32[2]\n}\n"
        made = {name: ctypes.c_void_p() for name in HANDLES.split()}
        out = {name: ctypes.byref(handle) for name, handle in made.items()}
        call = lambda name, *arguments: self.require(name, *arguments)  # noqa: E731
        call("device_open", None, out["device"])
        call("graph_from_text", text, ctypes.c_size_t(len(text)), None, out["graph"])
        call("graph_find", made["graph"], 0, b"x", out["tensor"])
        call("graph_find_operation", made["graph"], b"y", out["operation"])
        result = ctypes.c_void_p()
        call("operation_output", made["operation"], ctypes.c_size_t(0), ctypes.byref(result))
        call("graph_set_name", made["graph"], 1, b"y", result)
        call("graph_compile", made["graph"], None, ctypes.c_size_t(0), out["executable"])
        pair = (ctypes.c_int32 * 34)(0, 1, 2)
        call("array_create", pair, out["array"])
        for name in ("attributes", "event"):
            call(f"{name}_create", out[name])
        call("queue_create", None, out["queue"])
        call("command_buffer_create", made["queue"], out["command_buffer"])
        inputs = (ctypes.c_void_p * 1)(made["array"])
        call(
            *("executable_run_async", made["executable"], inputs, ctypes.c_size_t(1), None, ctypes.c_size_t(0)),
            *(None, None, None, out["execution"]),
        )
        call("trainer_open", self.trained, None, out["trainer"])
        self.pool += [handle.value for name, handle in made.items() if handle.value]
        released = ctypes.c_void_p()
        call("array_create", pair, ctypes.byref(released))
        call("release", released)
        self.pool.append(released.value)

    def require(self, name: str, *arguments) -> None:
        status = self.library[f"mpsgraph_{name}"](*arguments)
        assert status == 0, (name, status)

    def argument(self, text: str):
        kind = text.rsplit(" ", 1)[0] if "*" not in text else text[: text.rindex("*") + 1].strip()
        pick = self.random.choice
        if re.fullmatch(r"mpsgraph_(" + HANDLES.replace(" ", "|") + r")|void \*", kind) and "data" not in text:
            if not re.search(r"\b(destination|source|context)\b", text):
                return ctypes.c_void_p(pick(self.pool))
        if ("DLManaged" in kind and "**" not in kind) or "mpsgraph_custom_operation" in kind:
            return None  # an invalid structure would be an invalid pointer
        if kind in ("mpsgraph_deleter", "mpsgraph_completion"):
            return pick([None, self.completion]) if kind == "mpsgraph_completion" else None
        if kind == "const char *":
            return pick([None, b"", b"x", b"y", b"relu", b"addition", b"split", b"no such", *self.paths])
        if kind == "const char *const *":
            names = (ctypes.c_char_p * 8)(*(pick([None, b"inputs", b"labels", b"x", b"no such"]) for _ in range(8)))
            self.kept.append(names)
            return pick([None, names])
        if "*" in kind:
            if self.random.random() < 0.3:
                return None
            memory = Words()
            if re.fullmatch(r"(const )?mpsgraph_(" + HANDLES.replace(" ", "|") + r") \*", kind):
                memory[0:8] = [pick(self.pool) for _ in range(8)]
            elif "mpsgraph_type" in kind:
                memory[0] = pick([0, 0, 1, 12, 99]) | (pick([-1, 0, 1, 2, 17]) & 0xFFFFFFFF) << 32  # dtype, rank
                for i in range(1, 17):
                    memory[i] = pick([0, 1, 2, 3, (1 << 64) - 1])
            self.kept.append(memory)
            return memory
        if kind == "double":
            return ctypes.c_double(pick([0.0, 0.01, float("nan")]))
        if kind == "uint64_t":
            return ctypes.c_uint64(0)
        if kind == "size_t":
            return ctypes.c_size_t(pick([0, 0, 1, 1, 2, 8]))
        if kind == "int64_t":
            return ctypes.c_int64(pick([-1, 0, 1, 1 << 62]))
        return ctypes.c_int32(pick([-1, 0, 1, 2, 3, 99]))

    @property
    def paths(self) -> list[bytes]:
        """Return paths of packages that calls may write. The trainer's package is not among them, because it
        must not be replaced.
        """
        return [str(self.directory / "package.mpsgraph").encode()]

    def call(self, name: str) -> None:
        if name == "set_thread_count":
            arguments = [ctypes.c_int32(self.random.choice([-1, 0, 1]))]
        else:
            arguments = [self.argument(a) for a in self.functions[name] if a != "void"]
        status = self.library[f"mpsgraph_{name}"](*arguments)
        assert 0 <= status <= 13, (name, status)
        assert status == 0 or isinstance(self.error(), bytes)
        self.statuses[status] += 1
        if name == "release" and status == 0 and self.random.random() < 0.9:
            self.seeds()  # the object may be gone, so create valid handles again
        for given in arguments:
            if status == 0 and isinstance(given, Words) and given[0] > 1 << 32 and len(self.pool) < 400:
                self.pool.append(given[0])

    def error(self) -> bytes:
        self.library.mpsgraph_error_message.restype = ctypes.c_char_p
        return self.library.mpsgraph_error_message()


if __name__ == "__main__":
    fuzzer = Fuzzer(str(Path(sys.argv[1]).resolve()), sys.argv[2], int(sys.argv[3]), Path(sys.argv[5]).resolve())
    os.chdir(sys.argv[5])  # some strings are interpreted as paths, to which graphs may be saved
    fuzzer.seeds()
    names = sorted(fuzzer.functions)
    for index in range(int(sys.argv[4])):
        fuzzer.call(names[index % len(names)])
    print(f"{len(names)} functions called, statuses {dict(sorted(fuzzer.statuses.items()))}")
