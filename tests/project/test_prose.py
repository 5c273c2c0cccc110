"""Check that prose uses standard terms: phrases that read as if translated are not allowed anywhere in the repository.

CONTRIBUTING.md, "How we write", explains the conventions. This list holds only conventions that a pattern can check.
"""

from __future__ import annotations

import re

import pytest
from harness.prose import Passage, passages, tracked

PHRASES = {
    r"\b(nobody|somebody|whom)\b": "a caller, a user, another thread; unused, uncaught",
    r"\b(that|which) (is|are) (?-i:none)\b|\b(is|are) none of\b": "is not a ..., must be one of ...",
    r"\bis no (number|text|kind|place|file|name|type|shape|reason|way)\b": "is not a ...",
    r"\bnumbers? that (is|are) none\b|\bno numbers? at all\b": "NaN, non-finite",
    r"\bwhat (it|they) (is|are|was|were) (given|told|fed)\b|\bwhat (is|was) fed\b": "inputs, feeds, arguments",
    r"\bwhat it (gives|takes|says|asks)\b": "the result; the arguments; name the subject",
    r"\b(of|in|for|with|from) halves\b": "half precision, float16 and bfloat16",
    r"\bbeside\b": "next to, alongside; compared with",
    r"\bstands? (in|at|behind|before|there)\b|\bstand-?in\b": "is in, is at, follows; a mock",
    r"\banew\b|\bfor ever\b|\bthereof\b": "again; forever",
    r"\b(run|step|function|operation|kernel|loss|layer|type)s? of (one|its|their|your|our)('s)? own\b": "custom",
    r"\bof ours\b": "our",
    r"\b(is|are|was|were) told\b": "is notified, is passed, is configured with",
    r"\bhand(s|ed|ing)? out\b|\bhand(s|ed|ing)? back\b": "return",
    r"\bdoors?\b": "frontend, importer, exporter, backend",
    r"\bseen running\b": "tested",
    r"\brows by columns\b|\bproducts? of matrices\b": "matmul, GEMM",
    r"\bstitch(es|ed|ing)?\b": "fuse: a fused element-wise kernel",
    r"\bthe older (path|interface|API)\b": "the legacy MPSNNGraph API",
    r"\bshall\b": "must, will",
}
MESSAGES = {r"\b(, )?came\b": "got"}
EXCEPTIONS = {"tests/project/test_prose.py", "LICENSE"}
QUOTATIONS = {"Nobody inspects the spammish repetition"}  # the input of a known hash
PATTERNS = [(re.compile(pattern, re.IGNORECASE), remedy) for pattern, remedy in PHRASES.items()]
IN_MESSAGES = [(re.compile(pattern), remedy) for pattern, remedy in MESSAGES.items()]
FILES = [name for name in tracked() if name not in EXCEPTIONS]


def complaints(passage: Passage) -> list[str]:
    """Return what is wrong with a passage, a line for each phrase."""
    if passage.text in QUOTATIONS:
        return []
    patterns = PATTERNS + (IN_MESSAGES if passage.kind == "message" else [])
    return [
        f"{passage}: {match[0]!r}; write: {remedy}"
        for pattern, remedy in patterns
        if (match := pattern.search(passage.text))
    ]


def folder(name: str) -> str:
    """Return the top-level folder of a file."""
    return name.partition("/")[0]


@pytest.mark.parametrize("place", sorted({folder(name) for name in FILES}))
def test_prose_uses_standard_terms(place: str):
    found = [
        line for name in FILES if folder(name) == place for passage in passages(name) for line in complaints(passage)
    ]
    assert not found, f"{len(found)} phrases:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("comment", "Nobody waits for it."),
        ("docstring", "Return what it is given."),
        ("message", "groups must be positive, came 0"),
        ("page", "Times beside PyTorch's."),
        ("test name", "a constant that is none"),
    ],
)
def test_prose_lint_finds_forbidden_phrases(kind: str, text: str):
    assert complaints(Passage("x.py", 1, kind, text))


def test_prose_lint_reads_every_kind_of_prose():
    kinds = {
        p.kind
        for name in FILES
        if name.startswith(("python/mpsgraph/nn/", "docs/", "tests/core/"))
        for p in passages(name)
    }
    assert kinds == {"page", "docstring", "message", "comment", "test name"}
