"""Times of workloads with other kernels, relative to the usual ones, in one run: `candidates.py winograd=off`.

The argument is a value of MPSGRAPH_KERNELS (docs/performance.md). Both sides take turns in separate processes, so
that the machine treats them alike. A ratio above 1 means that the workload takes longer with the argument. The last
line is the geometric mean.
"""

import argparse
import math
import os
import re
from dataclasses import replace

from measuring.compare import Workload, compare
from measuring.options import Options
from measuring.report import OURS
from measuring.sides import Side, SideFailed, ours
from workloads import NETWORKS

WORKLOADS = {
    "W1": ("w1_digits.py", "Trainer"),
    "W2 float32": ("w2_resnet50.py", "Trainer"),
    "W2 bfloat16": ("w2_resnet50.py", "Trainer bfloat16"),
    "W3": ("w3_conv_lstm.py", "Trainer"),
    "W4": ("w4_gan.py", "graph"),
    "W6": ("w6_mlp.py", "Trainer"),
    "W7": ("w7_character.py", "optimized"),
    "W8 batch 1": ("w8_inference.py", "optimized, batch 1"),
    "W8 batch 64": ("w8_inference.py", "optimized, batch 64"),
    "W10": ("w10_decoding.py", "optimized"),
    "W11 256": ("w11_attention.py", "W11 256"),
    "W12 words": ("w12_language_model.py", "W12 words"),
    "W12 characters": ("w12_language_model.py", "W12 characters"),
    "mobile": ("busy_machine.py", "mobile"),
    "text": ("busy_machine.py", "text"),
    "tabular": ("busy_machine.py", "tabular"),
    **{name: ("networks.py", name) for name in NETWORKS},
}
"""For each workload, the script and the build that serve it."""


def ratio(name: str, setting: str, options: Options) -> float:
    """Print and return the time with the setting divided by the time without it."""
    script, build = WORKLOADS[name]
    usual = ours(script, build, "usual")
    other = Side(OURS, setting, usual.command, {"MPSGRAPH_KERNELS": setting})
    rows = compare(Workload(name, name, None, trains=False), [usual, other], options)
    usual_row, other_row = rows
    value = 1 / other_row.ratio.median
    print(
        f"{name:32s} {usual_row.value.median:9.2f} ms {other_row.value.median:9.2f} ms   {value:5.2f} "
        f"({1 / other_row.ratio.q3:.2f} to {1 / other_row.ratio.q1:.2f})",
        flush=True,
    )
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", help="a value of MPSGRAPH_KERNELS, such as winograd=off")
    Options.add_to(parser)
    arguments = parser.parse_args()
    options = replace(Options.of(arguments), peers=False, workloads="")
    os.environ.pop("MPSGRAPH_KERNELS", None)
    ratios = []
    for name in WORKLOADS:
        if not re.search(arguments.only, name):
            continue
        try:
            ratios.append(ratio(name, arguments.setting, options))
        except SideFailed as failure:
            print(f"{name:32s} failed: {failure}", flush=True)
    if ratios:
        print(f"geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
