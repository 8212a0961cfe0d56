"""Readers of arithmetic: numbers and tiles, constants, comparisons, casts, native code element by element.

Input: an op of the dialects `arith`, `math`, and those of `tt` that compute. Output: ours that does the same. For example:

    %7 = arith.addf %5, %6 : tensor<128xf32, #blocked>      fadd %5 %6
    %8 = arith.cmpi slt, %0, %K : i32                       icmpSLT %0 %K
"""

from __future__ import annotations

import re
import struct

from ...ir import I1, OPS, Block, Buffer, Scalar, Tensor, like
from .reading import Here, reads

# The op of ours that takes the same operands in the same order.
_TWINS = {
    "arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul", "arith.divf": "fdiv", "arith.remf": "frem",
    "arith.negf": "fneg", "arith.maximumf": "maximumf", "arith.minimumf": "minimumf", "arith.maxnumf": "maxnumf",
    "arith.minnumf": "minnumf", "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.divsi": "sdiv",
    "arith.divui": "udiv", "arith.remsi": "srem", "arith.remui": "urem", "arith.andi": "and", "arith.ori": "or",
    "arith.xori": "xor", "arith.shli": "shl", "arith.shrsi": "ashr", "arith.shrui": "lshr", "arith.maxsi": "maxsi",
    "arith.minsi": "minsi", "arith.maxui": "maxui", "arith.minui": "minui",
    "math.exp": "exp", "math.exp2": "exp2", "math.log": "log", "math.log2": "log2", "math.sqrt": "sqrt", "math.rsqrt": "rsqrt",
    "math.sin": "sin", "math.cos": "cos", "math.erf": "erf", "math.absf": "fabs", "math.absi": "iabs", "math.ceil": "ceil",
    "math.floor": "floor", "math.fma": "fma", "tt.precise_divf": "precise_divf",
    "tt.precise_sqrt": "precise_sqrt", "tt.approx_divf": "approx_divf", "tt.mulhiui": "umulhi",
}
# The op of ours that makes a value of the result's type.
_CASTS = {"arith.sitofp": "si_to_fp", "arith.uitofp": "ui_to_fp", "arith.fptosi": "fp_to_si", "arith.fptoui": "fp_to_ui",
          "arith.extf": "fp_ext", "arith.truncf": "fp_trunc", "arith.bitcast": "bitcast",
          "tt.int_to_ptr": "int_to_ptr", "tt.ptr_to_int": "ptr_to_int"}
_INTEGERS = {"arith.extsi": True, "arith.extui": False, "arith.trunci": True, "arith.index_cast": True,
             "arith.index_castui": False}     # whether the number has a sign
_COMPARED = {"eq": "icmpEQ", "ne": "icmpNE", "slt": "icmpSLT", "sle": "icmpSLE", "sgt": "icmpSGT", "sge": "icmpSGE",
             "ult": "icmpULT", "ule": "icmpULE", "ugt": "icmpUGT", "uge": "icmpUGE"}
_CONSTANT = re.compile(r"= arith\.constant (?:\{.*?\} )?(?:dense<(.*?)>|(\S+))(?: : .*)?$")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_NOTHING = re.compile(r"\s*(?:;[\w \t]*)?\s*")
_BITS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}


_I128 = Scalar("i128")


@reads(*_TWINS)
def twin(here: Here):
    if isinstance(here.operands[0].type, Buffer):       # an answer of launch control, which stands for its bytes
        return here.stands_for(here.operands[0])
    return here.op(_TWINS[here.name], *here.operands)


@reads("arith.select")
def select(here: Here):
    """By one number between a tile and a sum that is still computed: a branch that hands on the one or the other. Triton writes so
    in a persistent loop, LLVM sinks it behind the wait in the branch of the same condition, and no register is read."""
    condition, *choices = here.operands
    makers = [here.reader.made_by.get(number) for number in here.node.operands]
    if isinstance(condition.type, Scalar) and any(one is not None and one.name.startswith("ttng.warp_group_dot") for one in makers):
        blocks = tuple(Block((), (here.op("yield", (one, ), results=()), )) for one in choices)
        return here.op("if", condition, tuple(here.types), blocks=blocks)
    return here.op("select", condition, *choices)


@reads(*_CASTS)
def cast(here: Here):
    return here.op(_CASTS[here.name], here.operands[0], here.types[0])


@reads(*_INTEGERS)
def integer(here: Here):
    if isinstance(here.operands[0].type, Buffer):
        return here.stands_for(here.operands[0])
    return here.op("int_cast", here.operands[0], here.types[0], _INTEGERS[here.name])


@reads("arith.ceildivsi", "arith.floordivsi")
def rounded_quotient(here: Here):
    """The quotient towards zero, and one step further where the remainder, if there is one, has the sign for it."""
    lhs, rhs = here.operands
    type_, up = here.types[0], here.name == "arith.ceildivsi"
    zero, none = here.number(0, type_)
    step, one = here.number(1, type_)
    quotient, remainder, signs, moved = (here.value(type_) for _ in range(4))
    truth = like(type_, I1)
    left, differ, further = (here.value(truth) for _ in range(3))
    return [zero, step, here.op("sdiv", lhs, rhs, results=(quotient, )), here.op("srem", lhs, rhs, results=(remainder, )),
            here.op("icmpNE", remainder, none, results=(left, )), here.op("xor", lhs, rhs, results=(signs, )),
            here.op("icmpSGE" if up else "icmpSLT", signs, none, results=(differ, )),
            here.op("and", left, differ, results=(further, )),
            here.op("add" if up else "sub", quotient, one, results=(moved, )), here.op("select", further, moved, quotient)]


@reads("arith.ceildivui")
def rounded_up(here: Here):
    lhs, rhs = here.operands
    type_ = here.types[0]
    zero, none = here.number(0, type_)
    step, one = here.number(1, type_)
    quotient, remainder, moved = (here.value(type_) for _ in range(3))
    left = here.value(like(type_, I1))
    return [zero, step, here.op("udiv", lhs, rhs, results=(quotient, )), here.op("urem", lhs, rhs, results=(remainder, )),
            here.op("icmpNE", remainder, none, results=(left, )), here.op("add", quotient, one, results=(moved, )),
            here.op("select", left, moved, quotient)]


@reads("arith.cmpi")
def compared(here: Here):
    return here.op(_COMPARED[re.search(r"arith\.cmpi (\w+),", here.text)[1]], *here.operands)


@reads("arith.cmpf")
def compared_floats(here: Here):
    word = re.search(r"arith\.cmpf (\w+),", here.text)[1]
    if word in ("uno", "ord"):
        return _numbers(here, word == "uno")
    if f"fcmp{word.upper()}" not in OPS:
        raise here.unreadable(f"the comparison {word} has no meaning in the simulator")
    return here.op(f"fcmp{word.upper()}", *here.operands)


def _numbers(here: Here, any_is_none: bool):
    """A test of whether one of two floats is no number, or both are numbers: only what is no number differs from itself."""
    name, both = ("fcmpUNE", "or") if any_is_none else ("fcmpOEQ", "and")
    truths = [here.value(here.types[0]) for _ in here.operands]
    return [*(here.op(name, value, value, results=(truth, )) for value, truth in zip(here.operands, truths, strict=True)),
            here.op(both, *truths)]


@reads("arith.constant")
def constant(here: Here):
    type_ = here.types[0]
    if type_ == _I128:
        return here.stands_for(None)    # a number of bits by which an answer of launch control is shifted
    element = type_.element if isinstance(type_, Tensor) else type_
    number = _constant(here, element)
    here.reader.constants[here.results[0]] = number
    return here.op("constant", number, type_)


def _constant(here: Here, element) -> int | float:
    found = _CONSTANT.search(here.text)
    text = (found[1] or found[2]) if found else ""
    if text in ("true", "false"):
        return -1 if text == "true" and element.bits > 1 else int(text == "true")
    if text.startswith("0x") and isinstance(element, Scalar) and element.is_float:
        bits = int(text, 16)
        if element.name == "bf16":
            return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
        if element.name in _BITS:
            return struct.unpack(_BITS[element.name], bits.to_bytes(element.bits // 8, "little"))[0]
    if not _NUMBER.fullmatch(text) or not isinstance(element, Scalar):
        raise here.unreadable(f"the constant {text or here.text} has no meaning in the simulator")
    return float(text) if element.is_float else int(text)


@reads("ub.poison")
def poison(here: Here):
    return here.op("poison", here.types[0]) if here.types else None


@reads("tt.fp_to_fp")
def converted(here: Here):
    return here.op("fp_to_fp", here.operands[0], here.types[0], here.word("rounding").upper() or None)


@reads("tt.clampf")
def clamped(here: Here):
    return here.op("clampf", *here.operands, "ALL" if here.word("propagateNan") == "all" else "NONE")


@reads("tt.elementwise_inline_asm")
def assembly(here: Here):
    """An empty text, or words behind AMD's mark of a comment, names registers, in which its operand stays."""
    if _NOTHING.fullmatch(here.string()) and len(here.operands) == len(here.node.results):
        for place, value in enumerate(here.operands):
            here.stands_for(value, place)
        return None
    return here.op("inline_asm", _unescaped(here.string()), here.string("constraints"), tuple(here.operands), tuple(here.types),
                   here.word("pure") == "true", here.integer("packed_element", 1))


@reads("tt.extern_elementwise")
def external(here: Here):
    return here.op("extern_elementwise", here.string("libname"), here.string("libpath"), here.string("symbol"),
                   tuple(here.operands), here.types[0], here.word("pure") == "true")


def _unescaped(text: str) -> str:
    r"""A string as MLIR prints it: `\0A` is the character of that number, `\"` a quote."""
    return re.sub(r"\\([0-9A-Fa-f]{2}|.)", lambda found: chr(int(found[1], 16)) if len(found[1]) == 2 else found[1], text)
