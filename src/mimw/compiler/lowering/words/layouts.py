"""Layouts that an author pins, frees, compares or asks to see.

Input: a tile and what its author says of it. Output: a conversion, or text on stderr while compiling:

    require_layout %tile layout true        ttg.convert_layout, then an anchor (`anchor.py`)
"""

from __future__ import annotations

import sys

from ....ir import Buffer, Op, Type
from ..anchor import anchored
from ..cute import register_text, shared_text
from ..emitter import Emitter, emits


@emits("require_layout")
def require_layout(emitter: Emitter, op: Op):
    converted = emitter.operand(op, "value")
    return anchored(emitter, converted, op.value.type, emitter.layouts.registers[op.result]) if op.pin else converted


@emits("release_layout")
def release_layout(emitter: Emitter, op: Op):
    return emitter.converted(emitter.operand(op, "value"), op.result.type, emitter.wanted(op, "value"),
                             emitter.layouts.registers[op.result])


@emits("assert_same_layout")
def assert_same_layout(emitter: Emitter, op: Op):
    """Decided by the solver."""


@emits("dump_layout")
def dump_layout(emitter: Emitter, op: Op):
    print(f"// tlx.dump_layout @ {op.site.file}:{op.site.line}:{op.site.column + 1}\n//   type: "
          f"{emitter.of(op.value).get_type()}\n//   cute: {_cute(emitter, op.value, op.value.type)}", file=sys.stderr)


def _cute(emitter: Emitter, value, type_: Type) -> str:
    if isinstance(type_, Buffer):
        return shared_text(emitter.placed[value].layout, type_.shape, type_.element)
    return register_text(emitter.layouts.registers[value], type_.shape)
