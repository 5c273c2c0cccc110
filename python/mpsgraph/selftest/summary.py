"""Summary of a report in plain words: what works, what is wrong, and how fast it is."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .checks import (
    CRASHED,
    DIFFERS,
    FAILED,
    HOWS,
    HUNG,
    KNOWN,
    NOTED,
    PASSED,
    RAISED,
    REFUSED,
    UNSUPPORTED,
    WRONG,
    Options,
)
from .outcome import Outcome

WORDS = {  # Dict from parts to descriptions of what has passed.
    "operations": "operation values in {families}",
    "gradients": "gradients",
    "repeats": "results that stay the same from run to run",
    "nodes": "nodes of the legacy MPSNNGraph API and their gradients",
    "runtime": "memory, queues, events and errors",
    "digits": "training the digit classifier",
    "validation": "operations under Metal's validation layer",
}
RAISED_LINE = re.compile(r"[\w.]+(Error|Exception): ")
MOST_NAMES = 4
FEW = 30  # Number of passed checks of a part that the report names even if none failed.
DTYPES = {*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool", "bfloat16"}
DTYPES |= {"float16", "float32", "float64", "complex64", "complex128"}
SLOW_COMPILE = 2.0  # Seconds after which the summary mentions a check's compile time.
FAILINGS = {  # How a check failed, as the verdict says it before the names of the checks.
    WRONG: "wrong numbers in",
    CRASHED: "a crash in",
    HUNG: "a hang in",
    REFUSED: "an unexpected refusal of",
    RAISED: "an error in",
}


def summary(
    outcomes: list[Outcome],
    versions: dict[str, Any],
    left_out: dict[str, int | None],
    options: Options,
    interrupted: bool,
) -> dict[str, str]:
    """Return a dict from headings to lines, in the order of the report.

    Args:
        outcomes: Outcomes of all checks.
        versions: Dict of versions and hardware properties.
        left_out: Dict from parts to the number of skipped checks; None for parts that did not begin.
        options: Options of the self-test.
        interrupted: Whether the test was interrupted.
    """
    lines = {"verdict": _verdict(outcomes, versions, interrupted), "scope": _scope(options)}
    tested = [o for o in outcomes if o.part != "versions"]
    if tested:
        lines["works"] = _works(tested)
        lines["wrong"] = _wrong([o for o in tested if o.status == FAILED])
        if known := [o for o in tested if o.status == KNOWN]:
            number = _checks(len(known), "fails", "fail")
            lines["known"] = (
                f"{number} in the same way as on an earlier Mac; the cause is being worked on: {_names(known)}."
            )
        if refused := [o for o in tested if o.status == UNSUPPORTED and o.part != "oracle"]:
            number = _checks(len(refused), "needs", "need")
            lines["cannot"] = (
                f"{number} something that this device or system is known not to support; this is not a fault."
            )
        lines["speed"] = _speed(tested)
        if slow := [o for o in tested if o.compile_seconds >= SLOW_COMPILE]:
            lines["compile"] = _slow_compiles(slow)
    if probes := [o for o in tested if o.part == "probes"]:
        ended = sum(bool(o.how) for o in probes)
        also = f" {ended} of them by a crash of the test process, which does no harm." if ended else ""
        asked = f"{len(probes)} question{'' if len(probes) == 1 else 's'}"
        lines["questions"] = f"{asked} about MPSGraph answered, for the developers of this package.{also}"
    if differing := sum(o.status == DIFFERS for o in tested):
        number = _checks(differing, "finds", "find")
        lines["apple"] = f"{number} that Apple's own gradient differs from ours, which is worth a look."
    if left_out:
        parts = ", ".join(
            f"{'all' if number is None else f'{number:,}'} of {part}" for part, number in left_out.items()
        )
        lines["left out"] = f"Skipped for lack of time: {parts}; --all runs every check."
    return lines


def _scope(options: Options) -> str:
    """Describe which checks the options select."""
    texts = ["all parts" if not options.only else f"only {', '.join(options.only)} (--only)"]
    if options.quick:
        texts.append("one case per operation and shorter measurements (--quick)")
    elif options.everything:
        texts.append("every check, without time limits (--all)")
    else:
        texts.append("every dtype, within the time limits")
    if options.match:
        texts.append(f'only checks whose name contains "{options.match}" (--match)')
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}."


def _verdict(outcomes: list[Outcome], versions: dict[str, Any], interrupted: bool) -> str:
    where = f"{versions.get('chip', 'this machine')}, {versions.get('system', 'unknown system')}"
    broken = [o for o in outcomes if o.part == "versions" and o.status == FAILED]
    if broken:
        lines = [line.strip() for line in broken[0].message.splitlines() if line.strip()]
        raised = [line for line in lines[1:] if RAISED_LINE.match(line)]  # the end of a stack that Python printed
        return f"The device could not be opened: {': '.join([lines[0], *raised[-1:]])}"
    done = [o for o in outcomes if o.part != "versions"]
    failed = sum(o.status == FAILED for o in done)
    so_far = " The test was interrupted, so this covers only a part." if interrupted else ""
    if failed:
        return f"{failed:,} of {_checks(len(done))} failed on {where}: {_failings(done)}.{so_far}"
    return f"Nothing failed in {_checks(len(done))} on {where}.{so_far}"


def _failings(outcomes: list[Outcome]) -> str:
    """Describe the failures in few words, such as "wrong numbers in tanh (float16); a crash in inverse and 3 more"."""
    passed = {(o.part, name_of(o)) for o in outcomes if o.status == PASSED}
    failed = [o for o in outcomes if o.status == FAILED]
    texts = []
    # Checks of different operations that raise the same error have one cause.
    errors: dict[str, list[Outcome]] = {}
    for outcome in failed:
        if outcome.how == RAISED:
            errors.setdefault(outcome.message.splitlines()[0] if outcome.message else "", []).append(outcome)
    for message, some in errors.items():
        if message and len({name_of(o) for o in some}) > 1:
            texts.append(f'the same error in {_checks(len(some))}: "{_shortened(message)}"')
            failed = [o for o in failed if o not in some]
    found: dict[str, list[Outcome]] = {}
    for outcome in failed:
        found.setdefault(FAILINGS.get(outcome.how, "a failure of"), []).append(outcome)
    for words, some in found.items():
        counts = Counter(name_of(o) for o in some)
        named = [name for name, _ in counts.most_common(2)]
        more = f" and {len(counts) - 2} more" if len(counts) > 2 else ""
        # The dtype is worth naming if the same operations passed in other dtypes.
        dtypes = {_dtype_of(o) for o in some}
        only = dtypes.pop() if len(dtypes) == 1 and all((o.part, name_of(o)) in passed for o in some) else ""
        texts.append(f"{words} {', '.join(named)}{more}{f' ({only} only)' if only else ''}")
    return "; ".join(texts)


def _shortened(message: str, most: int = 160) -> str:
    return message if len(message) <= most else message[: most - 3] + "..."


def _dtype_of(outcome: Outcome) -> str:
    """Return the dtype at the end of a check's name, or "" if the check has none."""
    last = outcome.name.replace(", ", "-").split("-")[-1]
    return last if last in DTYPES else ""


def _slow_compiles(outcomes: list[Outcome]) -> str:
    """Name the operations that took longest to compile, with the longest time of each."""
    seconds: dict[str, float] = {}
    for outcome in outcomes:
        seconds[name_of(outcome)] = max(seconds.get(name_of(outcome), 0.0), outcome.compile_seconds)
    longest = sorted(seconds.items(), key=lambda item: -item[1])[:MOST_NAMES]
    more = f" and {len(seconds) - MOST_NAMES} more" if len(seconds) > MOST_NAMES else ""
    named = ", ".join(f"{name} {time:.1f} s" for name, time in longest)
    return f"{_checks(len(outcomes), 'took', 'took')} {SLOW_COMPILE:.0f} s or longer to compile: {named}{more}."


def _checks(count: int, one: str = "", more: str = "") -> str:
    verb = one if count == 1 else more
    return f"{count:,} check{'' if count == 1 else 's'}{f' {verb}' if verb else ''}"


def _works(outcomes: list[Outcome]) -> str:
    passed = [o for o in outcomes if o.status == PASSED]
    counts, all_of = (
        Counter(o.part for o in passed),
        Counter(o.part for o in outcomes if o.status in (PASSED, FAILED, KNOWN)),
    )
    number = len({o.family for o in passed if o.part == "operations"})
    families = "1 family" if number == 1 else f"{number} families"
    found = []
    for part, words in WORDS.items():
        if counts[part]:
            of = "" if counts[part] == all_of[part] else f" of {all_of[part]:,}"
            text = f"{words.format(families=families)} ({counts[part]:,}{of})"
            learned = [o for o in passed if o.part == part == "digits" and "accuracy" in o.numbers]
            if learned:
                text += f", which recognizes {learned[0].numbers['accuracy']:.1%} of unseen digits"
            found.append(text)
    text = ", ".join(found)
    return f"{text[0].upper()}{text[1:]}." if found else "No check passed."


def _wrong(failed: list[Outcome]) -> str:
    if not failed:
        return "Nothing."
    kinds = {how: [o for o in failed if o.how == how] for how in HOWS}
    kinds["failed"] = [o for o in failed if o.how not in HOWS]
    titles = {"refused": "refused unexpectedly", "raised": "raised an error"}
    texts = [f"{titles.get(how, how)}: {len(some)} ({_names(some)})" for how, some in kinds.items() if some]
    return "; ".join(texts) + "."


def _names(outcomes: list[Outcome]) -> str:
    """Return a string with the most frequent operations or checks, in descending order, and the number of others."""
    counts = Counter(name_of(o) for o in outcomes)
    named = [name if number == 1 else f"{name} {number}" for name, number in counts.most_common(MOST_NAMES)]
    return ", ".join(named) + (f" and {len(counts) - MOST_NAMES} more" if len(counts) > MOST_NAMES else "")


def name_of(outcome: Outcome) -> str:
    """Return the operation or kind of node that a check tests, or the name of the check if it tests something else."""
    if outcome.part in ("operations", "gradients", "oracle", "validation") and outcome.family:
        return outcome.name.split("-")[0]
    if outcome.part == "repeats":
        return outcome.name.rsplit(", ", 1)[0]
    if outcome.part == "nodes" and outcome.family and " of " in outcome.name:
        return outcome.name.split(" of ")[1].split("-")[0]
    return outcome.name


def passed_names(outcomes: list[Outcome]) -> list[str]:
    """Return the names of what passed in a part with failures: operations, or checks of operations with failures.

    In a part without failures, the checks are named only if they are few.
    """
    passed = [o for o in outcomes if o.status == PASSED and o.part != "versions"]
    if len(passed) > FEW and not any(o.status == FAILED for o in outcomes):
        return []
    failing = {name_of(o) for o in outcomes if o.status == FAILED}
    return list(dict.fromkeys(o.name if name_of(o) in failing else name_of(o) for o in passed))


def _speed(outcomes: list[Outcome]) -> str:
    timed = [o for o in outcomes if o.part == "speed" and o.status == NOTED]
    texts = []
    for outcome in timed:
        sides = {name: n for name, n in outcome.numbers.items() if isinstance(n, dict)}
        if not sides:  # The run reached its time limit during this measurement.
            continue
        ours = next(iter(sides.values()))
        text = f"{outcome.name.split(',')[0]} {ours['median ms']:.2f} ms"
        ratios = [
            (name, n["ratio of mpsgraph to this"]) for name, n in sides.items() if "ratio of mpsgraph to this" in n
        ]
        if ratios:
            text += f" ({', '.join(f'{faster(ratio)} {name}' for name, ratio in ratios)})"
        texts.append(text)
    if not texts:
        return "Not measured."
    missing = {name for o in timed for name, why in o.numbers.items() if why == "not installed"}
    advice = f" Not compared, because not installed: {', '.join(sorted(missing))}." if missing else ""
    return f"Times: {'; '.join(texts)}.{advice}"


def faster(ratio: float) -> str:
    """Describe in words the ratio of our time to another library's."""
    if 0.95 <= ratio <= 1.05:
        return "as fast as"
    return f"{1 / ratio:.1f} times as fast as" if ratio < 1 else f"{ratio:.1f} times slower than"
