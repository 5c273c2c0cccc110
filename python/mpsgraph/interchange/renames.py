"""Names that formats give to operations of the graph and to values of their options, if they mean the same in both.

One table serves import and export. A frontend registers its groups with `Registry.rows`; exceptions, such as names
whose operands need a conversion of their own, are left out and registered separately:

    @aten.rows(methods("aten", "function", without=("relu",)))
    def function(call, method, x): ...

    @writes.rows(names("onnx", "comparison", "arithmetic"))
    def same_meaning(writer, name, operation): ...
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from keyword import iskeyword

# A row is a kind of operation and its name in each format, or "-" if the format has no operation of that meaning. The
# last groups are values of options instead, such as padding modes and rules for the positions of resized images. Two
# names in one format are separated by a comma, the one to export first. A number after an ONNX operator is its newest
# version that imports. MIL and layers are Core ML's two formats, and aten is PyTorch's.
_TABLE = """
kind                             onnx               mil            layer                  aten         jax

# function
identity                         Identity/25        identity       -                      -            -
absolute                         Abs/13             abs            -                      abs          abs
negative                         Neg/13             -              -                      neg          neg
sign                             Sign/13            sign           sign                   -            -
square                           -                  square         -                      square       square
square_root                      Sqrt/13            sqrt           -                      sqrt         sqrt
reciprocal                       Reciprocal/13      -              -                      reciprocal   -
reciprocal_square_root           -                  -              -                      rsqrt        rsqrt
exponent                         Exp/13             exp            -                      exp          exp
exponent_base2                   -                  exp2           exp2                   exp2         exp2
logarithm                        Log/13             -              -                      log          log
logarithm_base2                  -                  -              -                      log2         -
logarithm_base10                 -                  -              -                      log10        -
sin                              Sin/22             sin            sin                    sin          sin
cos                              Cos/22             cos            cos                    cos          cos
tan                              Tan/22             tan            tan                    tan          tan
sinh                             Sinh/22            sinh           sinh                   sinh         sinh
cosh                             Cosh/22            cosh           cosh                   cosh         cosh
tanh                             Tanh/13            tanh           tanh                   tanh         tanh
asin                             Asin/22            asin           asin                   asin         asin
acos                             Acos/22            acos           acos                   acos         acos
atan                             Atan/22            atan           atan                   atan         atan
asinh                            Asinh/22           -              asinh                  asinh        asinh
acosh                            Acosh/22           -              acosh                  acosh        acosh
atanh                            Atanh/22           atanh          atanh                  atanh        atanh
erf                              Erf/13             erf            erf                    erf          erf
relu                             Relu/14            relu           -                      relu         -
sigmoid                          Sigmoid/13         sigmoid        -                      sigmoid      -

# rounding
ceil                             Ceil/13            ceil           ceil                   ceil         ceil
floor                            Floor/13           floor          floor                  floor        floor
rint                             Round/22           round          round                  round        -
truncate                         -                  -              -                      trunc,fix    -

# test
is_nan                           IsNaN/20           -              -                      isnan        -
is_infinite                      IsInf/20           -              -                      isinf        -
is_finite                        -                  -              -                      isfinite     is_finite
signbit                          -                  -              -                      signbit      -

# comparison
equal                            Equal/19           equal          equal                  eq           eq
not_equal                        -                  not_equal      notEqual               ne           ne
less_than                        Less/13            less           lessThan               lt           lt
less_than_or_equal_to            LessOrEqual/16     less_equal     lessEqual              le           le
greater_than                     Greater/13         greater        greaterThan            gt           gt
greater_than_or_equal_to         GreaterOrEqual/16  greater_equal  greaterEqual           ge           ge

# arithmetic
addition                         Add/14             add            addBroadcastable       add          add,add_any
subtraction                      Sub/14             sub            subtractBroadcastable  sub          sub
multiplication                   Mul/14             mul            multiplyBroadcastable  mul          mul
division                         Div/14             real_div       divideBroadcastable    div          div
floor_modulo                     -                  mod            modBroadcastable       remainder    -
power                            Pow/15             pow            powBroadcastable       pow          pow

# extremum
maximum_with_nan_propagation     Max/13             maximum        maxBroadcastable,max   maximum      max
minimum_with_nan_propagation     Min/13             minimum        minBroadcastable,min   minimum      min

# logic
logical_and                      And/7              logical_and    logicalAnd             logical_and  -
logical_or                       Or/7               logical_or     logicalOr              logical_or   -
logical_xor                      Xor/7              logical_xor    logicalXor             logical_xor  -

# bits
bitwise_and                      BitwiseAnd/18      -              -                      bitwise_and  and
bitwise_or                       BitwiseOr/18       -              -                      bitwise_or   or
bitwise_xor                      BitwiseXor/18      -              -                      bitwise_xor  xor

# inversion
not                              Not/1              logical_not    logicalNot             logical_not  -
bitwise_not                      BitwiseNot/18      -              -                      bitwise_not  not

# reduction
reduction_sum                    ReduceSum/13       reduce_sum     reduceSum              sum          reduce_sum
reduction_product                ReduceProd/18      reduce_prod    reduceProd             prod         reduce_prod
mean                             ReduceMean/18      reduce_mean    reduceMean             mean         -
reduction_maximum_propagate_nan  ReduceMax/20       reduce_max     reduceMax              amax         reduce_max
reduction_minimum_propagate_nan  ReduceMin/20       reduce_min     reduceMin              amin         reduce_min

# padding style
TF_SAME                          SAME_UPPER         same           -                      -            -
ONNX_SAME_LOWER                  SAME_LOWER         same_lower     -                      -            -
TF_VALID                         VALID              valid          -                      -            -
EXPLICIT                         NOTSET             custom         -                      -            -

# padding mode
constant                         constant           constant       constant               -            -
reflect                          reflect            reflect        reflection             -            -
clamp_to_edge                    edge               replicate      replication            -            -
periodic                         wrap               -              -                      -            -

# sampling padding
constant                         -                  constant       -                      -            -
clamp_to_edge                    border             border         -                      -            -
reflect                          -                  reflection     -                      -            -
symmetric                        reflection         symmetric      -                      -            -

# positions
top_left                         asymmetric         DEFAULT        -                      -            -
centers                          half_pixel         UNALIGN_CORNERS  -                    -            -
corners                          align_corners      STRICT_ALIGN_CORNERS,ALIGN_CORNERS  -  -           -

# dtype
float16                          -                  fp16           -                      -            -
float32                          -                  fp32           -                      -            -
float64                          -                  fp64           -                      -            -

# scatter mode
set                              none               update         -                      -            -
add                              add                add            -                      -            -
sub                              -                  sub            -                      -            -
mul                              mul                mul            -                      -            -
div                              -                  div            -                      -            -
max                              max                max            -                      -            -
min                              min                min            -                      -            -

# gate activation
tanh                             Tanh               tanh           tanh                   -            -
sigmoid                          Sigmoid            sigmoid        sigmoid                -            -
relu                             Relu               relu           ReLU                   -            -
hard_sigmoid                     HardSigmoid        sigmoid_hard   sigmoidHard            -            -
none                             Affine             linear         linear                 -            -
"""


OF_BOOLS = {
    "addition": "logical_or",
    "subtraction": "logical_xor",
    "multiplication": "logical_and",
    "maximum_with_nan_propagation": "logical_or",
    "minimum_with_nan_propagation": "logical_and",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
}
"""Operations that take the place of others if the operands are bools, in formats that name both alike."""


@cache
def _rows() -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the formats, and each row's group and cells. The first cell is the kind."""
    group, rows = "", []
    lines = [line for line in _TABLE.splitlines() if line]
    for line in lines[1:]:
        if line.startswith("# "):
            group = line[2:]
        else:
            rows.append((group, line.split()))
    return lines[0].split(), rows


def _cells(format: str, groups: Collection[str], without: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return the kind and the names of each row of some groups that the format has, names with their versions."""
    formats, rows = _rows()
    column = formats.index(format)
    unknown = set(groups) - {group for group, _ in rows}
    if unknown:
        raise ValueError(f"the table of names has no group {', '.join(sorted(unknown))}")
    cells = [(cells[0], cells[column].split(",")) for group, cells in rows if group in groups and cells[column] != "-"]
    return [(kind, names) for kind, names in cells if not {kind, *(n.partition("/")[0] for n in names)} & set(without)]


def method_of(kind: str) -> str:
    """Return the name of the Graph method that adds an operation of a kind, such as "not_" for "not"."""
    return f"{kind}_" if iskeyword(kind) else kind


def methods(format: str, *groups: str, without: Collection[str] = ()) -> dict[str, str]:
    """Return the Graph methods of a format's names in some groups, keyed by name, for import.

    `without` lists names, or kinds of operations, to leave out.
    """
    cells = _cells(format, groups, without)
    return {name.partition("/")[0]: method_of(kind) for kind, names in cells for name in names}


def names(format: str, *groups: str, without: Collection[str] = ()) -> dict[str, str]:
    """Return a format's names of the kinds of operations in some groups, keyed by kind, for export.

    `without` lists names, or kinds of operations, to leave out.
    """
    return {kind: names[0].partition("/")[0] for kind, names in _cells(format, groups, without)}


def options(format: str, group: str) -> dict[str, str]:
    """Return the graph's value of an option for each of a format's values, for import. `names` is the inverse."""
    return {name: value for value, names in _cells(format, [group], ()) for name in names}


def between(format: str, other: str, *groups: str) -> dict[str, str]:
    """Return the names of one format in another, keyed by the first format's name, where both have an operation."""
    theirs = names(other, *groups)
    cells = _cells(format, groups, ())
    return {name.partition("/")[0]: theirs[kind] for kind, given in cells if kind in theirs for name in given}


@cache
def versions(format: str) -> dict[str, int]:
    """Return the newest version of a format's names that import, keyed by name. Only ONNX has versions."""
    cells = _cells(format, {group for group, _ in _rows()[1]}, ())
    pairs = [name.partition("/") for _, names in cells for name in names]
    return {name: int(version) for name, _, version in pairs if version}
