r"""Reader of Hopper's products that mimw writes as assembly: of any multiple of 8 columns, and as deep as the author has them.

Input: `ttg.inline_asm`. Output: an `async_dot`. For example:

    wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {$0, .., $23}, da, db, 1, ..; four times
        async_dot %a %b %acc, of 48 columns in a tile of 64, and of 64 along K

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". The numbers of the matrix descriptors (swizzle,
strides) are taken as they are: nothing compares them with the layouts of the operands.
"""

from __future__ import annotations

import re

from ...ir import Buffer, Op, Scalar, Tensor, Value, like
from .assembly import form
from .reading import Here

_KINDS = {"f16": "fp16", "bf16": "bf16", "tf32": "fp32", "e4m3": "fp8e4nv", "e5m2": "fp8e5", "s8": "i8"}
_ONE = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(?:f32|s32)\.(\w+)\.(\w+) \{\$(\d+),[^}]*\}, "
                  r"(?:\w+|\{[^}]*\}), db, ([01])")


@form(r"\{ \.reg \.b32 t, g; \.reg \.b64 a0, b0, da, db, x; .* wgmma\.fence\.sync\.aligned; (?P<steps>.*) "
      r"wgmma\.commit_group\.sync\.aligned; \}")
def product(here: Here, found):
    steps = _ONE.findall(found["steps"])
    if not steps or len(steps) != found["steps"].count("wgmma.mma_async") or len({one[:4] for one in steps}) != 1:
        raise here.unreadable("a product in another form than mimw writes")
    (type_, ), (columns, depth, kind, other, first, adds) = here.types, steps[0]
    if kind != other or first != "0":
        raise here.unreadable("a product in another form than mimw writes")
    blocks = len({one[4] for one in steps})
    shape = type_.shape[0], int(columns), int(depth) * len(steps) // blocks
    acc, b, a = _operands(here)
    element = Scalar(_KINDS[kind])
    left, a = _left(here, a, element, (shape[0], shape[2]))
    right, b = _cut(here, b, (shape[2], shape[1]))
    exact = a.type, b.type, Tensor(type_.element, shape[:2])
    fresh = {"fresh": True} if acc is not None and adds == "0" else {}
    return [*left, *right, here.op("async_dot", a, b, acc, "tf32", 0, type=type_, exact=exact, **fresh)]


def _operands(here: Here) -> tuple[Value | None, Value, Value]:
    """The sum or None, then B and A: behind the sum stands B, then A with the number of each thread, or A's registers."""
    values = list(here.operands)
    acc = None if isinstance(values[0].type, Buffer) else values.pop(0)
    return acc, values[0], values[1]


def _left(here: Here, a: Value, element: Scalar, shape: tuple[int, int]) -> tuple[list[Op], Value]:
    """A as it is multiplied: a buffer, or the elements that registers hold."""
    if isinstance(a.type, Buffer):
        return _cut(here, a, shape)
    ops, seen = [], here.value(like(a.type, element))
    ops.append(here.op("bitcast", a, seen.type, results=(seen, )))
    if shape != a.type.shape:
        narrow = here.value(Tensor(element, shape))
        ops.append(here.op("cut", seen, (0, 0), shape, results=(narrow, )))
        seen = narrow
    return ops, seen


def _cut(here: Here, buffer: Value, shape: tuple[int, int]) -> tuple[list[Op], Value]:
    """The first rows and columns of a buffer, so many as are multiplied."""
    if buffer.type.shape == shape:
        return [], buffer
    if any(extent < wanted for extent, wanted in zip(buffer.type.shape, shape)):
        raise here.unreadable("a product of an operand that lies in several buffers")
    part = here.value(Buffer(buffer.type.element, shape))
    return [here.op("buffer_slice", buffer, (0, 0), shape, results=(part, ))], part
