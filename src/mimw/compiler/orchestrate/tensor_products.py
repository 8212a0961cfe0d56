"""Which products tcgen05 does, and which loads it reads where they lie.

Input: a plain program. Output: why a product is none of tcgen05's, or ""; and the products and loads that are done where they lie.
For example:

    misfit(dot of fp16[128, 64] and fp16[64, 256], 1)       ""
    misfit(dot of fp16[32, 64] and fp16[64, 256], 1)        "tcgen05 multiplies 64 or 128 rows at a time, and a task has 32"

Source: PTX ISA, "tcgen05.mma", shapes and kinds; the rules are those of `tlx.async_dot`, which looks again.
"""

from __future__ import annotations

from ...ir import Block, Op, Program, Value
from ..analysis.uses import Uses
from .plan import Plan
from .tiles_read import flattens, reached

ROWS, WIDEST, STEP, LEAST = (64, 128), 256, 32, 16     # rows, most columns, bytes of a step along K, least K
_SUMS = {"fp16": "fp32", "bf16": "fp32", "fp8e5": "fp32", "fp8e4nv": "fp32", "i8": "i32"}


def misfit(dot: Op, parts: int) -> str:
    """The reason for which tcgen05 does not do a product of which `parts` tasks have the rows; "" if it does."""
    if dot.name != "dot":
        return f"`{dot.row.word}` has no form with tensor memory here yet"
    a, b, acc = dot.a.type, dot.b.type, dot.acc.type
    if len(a.shape) != 2:
        return "it multiplies several matrices at once"
    (rows, k), n = a.shape, b.shape[1]
    rows, name = rows // parts, a.element.name
    if a.element != b.element or _SUMS.get(name) != acc.element.name:
        return f"{name} times {b.element.name} into {acc.element.name} is no product of tensor memory here"
    if rows not in ROWS or dot.a.type.shape[0] % parts:
        return f"tcgen05 multiplies 64 or 128 rows at a time, and a task has {rows}"
    step = 8 if rows == ROWS[0] and name != "i8" else 16
    if n % step or n > WIDEST:
        return f"tcgen05 has products of {step}, {2 * step}, .. 256 columns, and here are {n}"
    if k < LEAST or k * a.element.bits // 8 % STEP:
        return f"tcgen05 goes along K in steps of {STEP} bytes, and here are {k * a.element.bits // 8}"
    if dot.max_imprecise:
        return "it asks for sums of fewer bits now and then, which tensor memory does not have"
    return ""


def direct_of(program: Program, uses: Uses, loads: list[Op], plan: Plan) -> tuple[set[Op], set[Op]]:
    """(products, loads that products alone take, as operands, in the loads' own block or in loops within it)."""
    return set(program.named("dot")), {load for load in loads if load.name == "descriptor_load" and all(
        use.name == "dot" and _is_operand(uses, use, load.result) and _within_loops(uses, use, load)
        for use in reached(uses, load.result))}


def _is_operand(uses: Uses, dot: Op, tile: Value) -> bool:
    """True if a product takes the tile on its left or on its right, and does not add to it."""
    return operand_of(uses, dot.acc)[0] is not uses.definition[tile]


def _within_loops(uses: Uses, dot: Op, load: Op) -> bool:
    """True if nothing but loops stands between a product and the block of a load, so that the slot can be given back behind the
    outermost of them; or if the load is done once for all."""
    if uses.place[load].parent is None:
        return True
    place = uses.place[dot]
    while place.block is not uses.place[load].block:
        if place.parent is None or place.parent.name != "for":
            return False
        place = uses.place[place.parent]
    return True


def operand_of(uses: Uses, value: Value) -> tuple[Op | None, bool]:
    """The op behind an operand, and whether the tile is turned: a tile that is turned twice lies as it was."""
    op, turned = uses.definition.get(value), False
    while op is not None and (op.name == "trans" or flattens(op)):
        op, turned = uses.definition.get(op.value), turned != (op.name == "trans")
    return op, turned


def within(uses: Uses, op: Op, block: Block) -> Op:
    """The op of a block that is another one, or has it inside."""
    while uses.place[op].block is not block:
        op = uses.place[op].parent
    return op
