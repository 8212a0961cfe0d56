"""Reductions and scans as text: the words of `tl` where these record the same, else a function of the module beside the kernel.

Input: an op with a region that combines elements. Output: its text, or a line if it gives several values. For example:

    reduce %x, axis=1 { fadd }          tl.sum(x, 1)                    of 32 or 64 bits, which tl.sum converts to nothing else
    reduce (%x, %i), axis=0 {..}        tl.reduce((x, i), 0, combine)
"""

from __future__ import annotations

from ....ir import Block, Op
from ....ir.types import element_of
from .rows import statement, unwritten
from .texts import ATOM, LONGEST, Text, has_sign

_REDUCTIONS = {"fadd": ("sum", None), "add": ("sum", None), "maxnumf": ("max", None), "maxsi": ("max", True),
               "minnumf": ("min", None), "minsi": ("min", True), "xor": ("xor_sum", None)}
_SCANS = {"fadd": ("cumsum", None), "add": ("cumsum", None), "fmul": ("cumprod", None), "mul": ("cumprod", None)}
_PLAIN = ("fp32", "fp64", "i32", "i64")


def _one_op(block: Block) -> str:
    """The name of the only op of a region that combines two elements by one, in order."""
    if len(block.ops) == 2 and len(block.args) == 2 and block.ops[0].operands == block.args and \
            block.yielded == block.ops[0].results:
        return block.ops[0].name
    return ""


@statement("reduce scan")
def _combined(w, op: Op) -> None:
    text = _text(w, op)
    if len(op.results) == 1:
        if w.all_inside or w.inlining.inside(op) and len(text.code) <= LONGEST:
            w.texts[op.result] = text
        else:
            w.bind(op.result, text, "total" if op.name == "reduce" else "sums")
        return
    names = []
    for value, given in zip(op.results, op.values):
        names.append(w.names.fresh(value.name or "t"))
        w.texts[value] = Text(names[-1], signed=_sign(w, given))
    w.line(f"{', '.join(names)} = {text.code}")


def _sign(w, value) -> bool | None:
    """The sign of an operand; one that is not known is read as signed."""
    if not has_sign(value.type):
        return None
    return w.typed(value).signed is not False


def _text(w, op: Op) -> Text:
    element = element_of(op.values[0].type)
    reverse = op.name == "scan" and bool(op.reverse)
    word, signed = (_REDUCTIONS if op.name == "reduce" else _SCANS).get(_one_op(op.blocks[0]), ("", None))
    texts = [w.with_sign(w.typed(value), value.type, signed if signed is not None else _sign(w, value)) for value in op.values]
    sign = texts[0].signed
    if word and element.name in _PLAIN:
        return Text(f"tl.{word}({texts[0].code}, {op.axis}{', reverse=True' if reverse else ''})", ATOM, sign)
    values = texts[0].code if len(texts) == 1 else "(" + ", ".join(text.code for text in texts) + ")"
    function = helper(w, op, [_sign(w, value) for value in op.values] * 2, [_sign(w, value) for value in op.values])
    call = "tl.reduce" if op.name == "reduce" else "tl.associative_scan"
    return Text(f"{call}({values}, {op.axis}, {function}{', reverse=True' if reverse else ''})", ATOM, sign)


@statement("map_elementwise")
def _mapped(w, op: Op) -> None:
    raise unwritten(op)


def helper(w, op: Op, signs: list, results: list) -> str:
    """The name of a function that combines elements as the op's region does. Functions with the same text are one."""
    block = op.blocks[0]
    inner = w.child()
    params = []
    for value, signed in zip(block.args, signs):
        params.append(inner.names.fresh(value.name or "x"))
        inner.texts[value] = Text(params[-1], signed=signed if has_sign(value.type) else None)
    inner.block(block.ops)
    given = [inner.carried(value, signed) for value, signed in zip(block.yielded, results)]
    inner.line(f"return {', '.join(text.code for text in given)}")
    body = f"({', '.join(params)}):\n" + "\n".join(inner.lines)
    known = next((name for name, text in w.helpers.items() if text == body), None)
    if known is None:
        known = w.names.fresh("combine")
        w.helpers[known] = body
    return known


