"""Rules that interpret the answers of the self-test's probes.

A probe may have several rules. Each rule belongs to a row of behaviour.md or, without a row, to an assumption of the
code. `needed` matches the answer of a Mac for which the row is true, so that our workaround is needed. `not_needed`
matches the answer of a Mac where the selector works as documented. Any other answer is unexpected.
tools/from_report.py evaluates a report with these rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ENDED = "the process ended"  # Recorded as the answer if a probe aborts.
DIES = rf"^(refused|{ENDED})"
AS_THE_TABLE, BETTER, WORSE, UNFORESEEN, NOT_ASKED = "as the table", "better", "worse", "unforeseen", "not asked"


@dataclass(frozen=True)
class Rule:
    """How to interpret the answers of one probe."""

    probe: str
    row: str  # First cell of the row in behaviour.md; empty for an assumption of the code.
    needed: str  # Regular expression, searched for in the answer.
    not_needed: str = ""
    counted_on: bool = False  # The code relies on `needed`; any other answer means wrong results on this Mac.
    from_macos: float = 0.0  # First macOS version for which the row is true.
    until_macos: float = 99.0  # First macOS version for which the row is no longer true.

    def judge(self, answer: str, macos: float) -> str:
        """Return the verdict on an answer: AS_THE_TABLE, BETTER, WORSE, UNFORESEEN, or NOT_ASKED."""
        if answer.startswith("not asked"):
            return NOT_ASKED
        holds = self.from_macos <= macos < self.until_macos
        if self.not_needed and re.search(self.not_needed, answer):
            return BETTER if holds else AS_THE_TABLE
        if re.search(self.needed, answer):
            return AS_THE_TABLE if holds else WORSE
        return WORSE if self.counted_on else UNFORESEEN


FIVE = r"\[16777217, 1832780943, 2143289345, 1, 3\]"
ROUNDED = r"\[16777216, 1832780928, "
SMALL = "reductions of 8-bit, 16-bit, and unsigned integers, bool, bfloat16"
BYTES = "gathers of bool and uint8"
SIXTEEN = r"\[0, 1, 2, 3, 4, 5, 6, 7, 16, 18, 20, 22, 24, 26, 28, 30\]"
PAIRS = r"\[1, 2, 1, 2, 3, 4, 3, 4\]"

RULES = [
    Rule("gathered_integers", "gathers and scatters of 32- and 64-bit integers", f": {ROUNDED}", f": {FIVE}$"),
    Rule("scattered_integers", "gathers and scatters of 32- and 64-bit integers", f"set {ROUNDED}", f"set {FIVE}"),
    Rule("gathered_patterns", "", ".", f": {FIVE}$"),
    Rule("gathered_bools", BYTES, rf"{DIES}|: (?!\[1, 0, 1, 0\])", r": \[1, 0, 1, 0\]"),
    Rule("gathered_bytes", BYTES, rf"{DIES}|: (?!\[1, 0, 1, 0\])", r": \[1, 0, 1, 0\]"),
    Rule("indices_of_64_bits", "64-bit indices in gathers and scatters", DIES, r": \[30, 10, 20\]"),
    Rule("scattered_integers", "integer maximum and minimum in scatters", f"{DIES}|max {ROUNDED}", f"max {FIVE}"),
    Rule("scattered_products", "integer products in scatters", rf"{DIES}|: \[5033164[^1]", r": \[50331651, 35\]"),
    Rule(
        "elements_beyond_2_31",
        "2^31 elements or more",
        rf"{DIES}|: \[0, 0, 0, 0\]",
        r": \[1, 2, 3, 4\]",
    ),
    Rule("elements_beyond_2_32", "2^31 elements or more", rf"{DIES}|: (?!\[1, 2, 3, 4\])", r": \[1, 2, 3, 4\]"),
    Rule("bytes_beyond_2_32", "more than 2^32 bytes", rf"{DIES}|: (?!\[1, 2, 3, 4\])", r": \[1, 2, 3, 4\]"),
    Rule("results_beyond_2_32", "more than 2^32 bytes", rf"{DIES}|: (?!\[0, 0, 0, 0\])", r": \[0, 0, 0, 0\]"),
    Rule("large_products", "matmuls with results of more than a gigabyte", rf"{DIES}|^[1-9]\d* of", "^0 of"),
    Rule("sorts_of_many_rows", "sorts of more than 2^22 rows", rf"{DIES}|^[1-9]\d* of", "^0 of"),
    Rule(
        "long_products",
        "matmuls with a dimension above 32768",
        r": (?!\[40000, 40000, 40000, 40000\])",
        r": \[40000, 40000, 40000, 40000\]",
        until_macos=14.4,
    ),
    Rule(
        "attention_pattern",
        "scaledDotProductAttention, and graphs that match its pattern",
        "grew|the next NaN",
        "^no growth.*the next numbers",
        from_macos=15.0,
    ),
    *(
        Rule(f"extrema_of_{name}", SMALL, f"{DIES}|maximum", r"maximum \[3\], minimum \[1\]")
        for name in ("int8", "uint8", "int16", "uint16", "uint32", "bfloat16")
    ),
    Rule("sum_of_uint32", SMALL, f"{DIES}|= ", r"= \[16777220\]"),
    Rule("all_and_any_of_bool", SMALL, f"{DIES}|and ", r"and \[0\], or \[1\]"),
    Rule(
        "nan_of_extrema",
        "NaN in maximum and minimum reductions",
        r"maximum \[1\], minimum \[1\]$",
        r"maximum \[nan\], minimum \[nan\]$",
    ),
    Rule("sorted_int64", "sorts of int64", rf"{DIES}|^[1-9]\d* of", "^0 of", from_macos=15.4),
    Rule("large_inverse", "inverses of more than 1024 rows", rf"{DIES}|^[1-9]\d* of", "^0 of"),
    Rule(
        "gradient_of_varying_gamma",
        "normalization gradients where gamma varies along the normalized axes",
        f"{DIES}|^other than",
        "^as the formula",
    ),
    Rule(
        "large_scalars_of_uint32",
        "uint32 scalars above 2^31",
        rf"{DIES}|3528531795 (?!\[-766435501\])",
        r"3528531795 \[-766435501\]",
    ),
    Rule("large_scalars_of_uint32", "", rf"{DIES}|it \[1995660793\]", counted_on=True),
    Rule("bounds_with_a_dimension", "loop bounds", DIES, r"= \[10\]$"),
    Rule(
        "package_without_a_folder",
        "writing a package into a folder that does not exist",
        f"^{ENDED}",
        "^(refused|the folder is made|nothing is written)",
    ),
    Rule(
        "package_without_a_manifest",
        "loading a package without `manifest.plist`",
        f"^{ENDED}",
        "^(refused|nothing is loaded)",
    ),
    Rule(
        "memory_of_continued_buffers",
        "intermediate results of programs in a command buffer that is continued",
        r"^[1-9]\d{3,} KB",
        r"^-?\d{1,3} KB",
    ),
    Rule("package_without_a_manifest", "", f"^({ENDED}|refused|an executable|nothing)", counted_on=True),
    Rule("padding_of_five_axes", "padding of large tensors with more than four axes", rf"{DIES}|^[1-9]\d* of", "^0 of"),
    Rule("scan_of_five_axes", "cumulative operations", rf"{DIES}|: (?!\[1, 3, 6\])", r": \[1, 3, 6\]"),
    Rule(
        "scatter_along_a_last_axis_of_one",
        "scatterAlongAxis with a last axis of size 1",
        DIES,
        r": \[0, 8, 0, 7\]",
    ),
    Rule(
        "gather_along_a_last_axis_of_one",
        "gatherAlongAxis with a last axis of size 1",
        DIES,
        r": \[30, 10\]",
        until_macos=15.2,
    ),
    Rule(
        "padding_beyond_the_axis",
        "mirror padding beyond the size of the axis, and periodic padding",
        rf"{DIES}|: (?!\[2, 3, 2, 1, 2, 3\])",
        r": \[2, 3, 2, 1, 2, 3\]",
    ),
    Rule(
        "long_sums",
        "matmuls with an inner dimension above 32766",
        r": \[32766, (?!32767, 32769, 65536\])",
        r": \[32766, 32767, 32769, 65536\]",
    ),
    Rule(
        "tall_kernels",
        "convolutions with kernels of size 256 or larger",
        "under 255: 0, .*under 128: 0, under 255: 0, under 256: [1-9]",
        "under 255: 0, under 256: 0;.*under 128: 0, under 255: 0, under 256: 0$",
    ),
    Rule(
        "many_images",
        "weight gradients of convolutions over 65536 images or more",
        r": \[65535, (?!65536\])",
        r": \[65535, 65536\]",
    ),
    Rule(
        "averages_after_large_numbers",
        "average pooling along more than 4096 elements",
        r": [1-9]\d* of \d+ in a row",
        r": 0 of \d+ in a row",
    ),
    Rule("averages_after_large_numbers", "", r", 0 of \d+ in an image", counted_on=True),
    Rule(
        "depthwise_with_unread_rows",
        "source gradients of depthwise convolutions whose windows leave elements unread",
        rf"{DIES}|: (?!\[1, 1, 2, 1, 2, 1, 1, 0\])",
        r": \[1, 1, 2, 1, 2, 1, 1, 0\]",
    ),
    Rule(
        "convolutions_of_three_axes",
        "3-D convolutions",
        rf"{DIES}|: [1-9]|, [1-9]",
        "first: 0, last: 0, of float16: 0, 0$",
    ),
    Rule("order_of_equal_numbers", "sorts with equal elements", "^0 of", counted_on=True),
    # Rules without a row: assumptions of the code.
    Rule(
        "adam_by_powers",
        "",
        r"^values \[0\.9\d*, 2\.(1|09)\d*\], momentum \[2, -2\], velocity \[4, 4\]",
        counted_on=True,
    ),
    Rule(
        "pooling_gradients",
        "",
        r"average \[5, 5, 10, 10\], maximum \[0, 10, 20, 0\], by indices \[0, 10, 20, 0\]",
        counted_on=True,
    ),
    Rule("local_indices", "", r"indices \[1, 0\], gradient \[0, 10, 20, 0\]", counted_on=True),
    Rule(
        "stencils",
        "",
        r"sum \[-1, 9, 19, 34\], max \[1, 10, 20, 30\], min \[-2, -3, -4, -?0\]",
        counted_on=True,
    ),
    Rule(
        "activations_of_cells",
        "",
        r"none \[-4, -1, 0\.5, 4\], relu \[0, 0, 0\.5, 4\], tanh \[-0\.9993\d*, -0\.7615\d*, 0\.4621\d*, 0\.9993\d*\], "
        r"sigmoid \[0\.0179\d*, 0\.2689\d*, 0\.6224\d*, 0\.9820\d*\], "
        r"hard sigmoid \[0, 0\.(3|29)\d*, 0\.(6|59)\d*, 1\]",
        counted_on=True,
    ),
    Rule("resized_without_a_batch", "", r"HW \[1, 2, 4, 5\], CHW \[1, 2, 4, 5\], HWC \[1, 2, 4, 5\]", counted_on=True),
    *(
        Rule(probe, "", "^as on the CPU: [^;]*$", counted_on=True)
        for probe in (
            "nodes_neurons",
            "nodes_local_normalizations",
            "nodes_reductions",
            "nodes_of_two_images",
            "nodes_losses",
            "nodes_forward_losses",
            "nodes_boxes",
            "nodes_trained_layers",
            "nodes_convolutions",
            "nodes_edges",
            "nodes_sizes",
            "nodes_handles",
            "recurrent_inference",
            "recurrent_training",
        )
    ),
    Rule("divided_integers", "", r": \[16777217, -3, -3, 715827882\]", counted_on=True),
    Rule("order_of_many", "", "^0 of", counted_on=True),
    Rule("halves_at_the_default_level", "", r": (?!\[-inf, inf, nan\])", r": \[-inf, inf, nan\]"),
    Rule("philox_state_of_a_seed", "", r": \[1, 0, 0, 0, 0, 7, 0\]"),
    Rule("philox_state_of_counters", "", r"^\[1, 1, 0, 2, 0, 3, 0\]", counted_on=True),
    Rule("philox_numbers_of_a_seed", "", r"by the seed (\[.*\]), by the seed's state \1$"),
    Rule(
        "philox_uniform_numbers",
        "",
        r"^\[0\.45901\d*, 0\.53342\d*, 0\.96277\d*, 0\.71216\d*\]",
        counted_on=True,
    ),
    Rule("philox_normal_numbers", "", ".", r"^\[-0\.26016\d*, -1\.2205\d*, -0\.2677\d*, -0\.06486\d*\]"),
    Rule("philox_advance", "", ".", r"^after 1 \[1, (2|257),"),
    Rule("philox_advance_of_normals", "", ".", r"^after 1 \[1, (2|257),"),
    Rule("normal_sampling_default", "", "^Box and Muller"),
    Rule(
        "recurrent_layers_again",
        "recurrent layers that run a second time",
        DIES,
        "^RNN 3 and 3, cell of the LSTM 3 and 3$",
        from_macos=26.0,
    ),
    Rule("small_buffers", "arrays in buffers of fewer than 64 bytes", DIES, r"^3 \+ 3 = 6 in 4 bytes", from_macos=27.0),
    Rule("gru_flip_z", "", ".", "^flipZ is NO by default; with NO the unit gives 8, with YES 0"),
    Rule("nan_of_relu", "", r": \[0, 0, 1\]", r": \[nan, 0, 1\]"),
    Rule("gather_out_of_bounds", "", ".", r": \[10, 30, 0, 0, 0\]"),
    Rule("variables_of_executables", "executables compiled with target operations", r"\[2, 2, 4, 4, 4\]"),
    Rule("four_bit_constants", "", f": {SIXTEEN}$", counted_on=True),
    Rule("four_bit_words", "elements of 4 bits in words", f": {SIXTEEN};"),
    Rule("groups_of_rows", "dequantization by groups", rf"{DIES}|: (?!{PAIRS})", f": {PAIRS}$"),
    Rule("rank_0", "", ".", r"^3 \+ 3 = 6, with a result of 0 dimensions"),
    Rule("memory_of_others", "", "pages shared.*malloc pages shared"),
]

# Rows that no probe asks about, and why.
UNASKED = {
    "a dimension above INT_MAX": "covered by the probe of 2^31 elements",
    "primaryScale of an addition node in an MPSNNGraph": "the nodes part compares scaled sums with the formula",
    "convolutions with more than 65536 channels": "refused before 26.0, based on PyTorch's measurements",
    "weight gradients of float16 convolutions": "would abort the process; float32 is exact for float16 inputs",
    "gradients of bfloat16 convolutions, and transposed convolutions": "as for float16",
    "gradients of float16 3-D convolutions": "as for float16",
    "complex-to-real Fourier transforms along several axes": "before 14.4 only, and the workaround is as accurate",
    "Fourier transforms along an axis before the last four": "Apple documents this",
    "sorts along an axis before the last four": "only the last axis is ever sorted",
    "sorts of NaN with the sign bit set": "sort keys contain no NaN",
    "rounding, sign, and sign bit of integers": "composed of comparisons, which are exact",
    "normalizations whose statistics have another dtype": "never passed to MPSGraph",
    "matmuls of float16 and bfloat16 with more than two dimensions": "the part repeats compares 50 runs",
    "matmuls of bfloat16 with more than two dimensions and a transposed operand": "covered by the part repeats",
    "a reshape, a matmul, and a reshape to more than four dimensions, several of them 1": "covered by the part repeats",
    "matmuls with transposed attention weights": "covered by the part repeats",
    "a bias added to a matmul of a batch with one matrix": "covered by the part repeats",
    "a bias added to a matmul of more than 65536 matrices with one matrix": "covered by the part repeats",
    "sums, means, and variances of millions of numbers": "too rare for a probe; the part repeats compares 50 runs",
    "padding channels in a concatenation of images": "refused, because their contents are undefined",
}
