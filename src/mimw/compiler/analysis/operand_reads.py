"""May a tile from shared memory be cast or turned on its way to a product?

Input: a program. Output: whether `triton_port.operand_reads` has anything to look at, a pass that most kernels need not pay for:

    k = tlx.local_load(keys[0])                 two dimensions, and ..
    s = tl.dot(q, k.to(tl.bfloat16))            .. a cast, and a product somewhere: reads_become_operands(program) is True

Only the module after Triton's passes shows which tile goes into which product, so the answer is for the kernel as a whole. 8-bit
tiles count in any case, since Triton casts them itself where the tensor core takes none.
"""

from __future__ import annotations

from ...ir import Op, Program
from .uses import Uses, uses_of

_BITS = 8
_MADE_OF_TILES = ("convert", "move")  # costs of ops, in their rows: casts and what moves elements


def reads_become_operands(program: Program) -> bool:
    """True if the program has a product, and reads a tile that may become one of its operands in another type or transposed."""
    if not program.where(lambda row: "dot" in row.traits):
        return False
    uses = uses_of(program)
    return any(_may_become(op, uses) for op in program.named("local_load"))


def _may_become(read: Op, uses: Uses) -> bool:
    tile = read.result.type
    return len(tile.shape) == 2 and (tile.element.bits == _BITS
                                     or any(use.op.row.cost in _MADE_OF_TILES for use in uses.of(read.result)))
