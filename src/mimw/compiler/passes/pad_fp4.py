"""Operands of fp4 that are multiplied by fp8 lie padded in shared memory.

Input: a program. Output: the program in which the allocation of each such operand has the padded layout, as if its author had
pinned it; the same object if there is none. For example:

    tcgen05_mma_scaled %a %b ... "e4m3" "e2m1"        the allocation of %b gets layout=nvmma(128-byte swizzle, padded)

The tensor cores take 16 values of fp4 from 16 bytes of which 8 are padding, if the other operand is fp8; TMA copies pairs of fp4
so (PTX ISA, ".b4x16_p64"). So the buffer takes twice its bytes, and this runs before anything adds up shared memory.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import LayoutConflict
from ...ir import Op, Program, Value
from ...ir.layouts import NvmmaShared
from ..constraints.memory_roots import memory_roots

_FP4, _SWIZZLE = "e2m1", 128      # the only swizzle of padded tiles, PTX ISA: ".b4x16_p64"


def pad_fp4(program: Program) -> Program:
    """The program with those layouts."""
    wanted = dict(_wanted(program))
    if not wanted:
        return program

    def padded(op: Op) -> Op:
        if op.results and op.results[0] in wanted and op.name == "local_alloc":
            return _padded(op, wanted[op.results[0]])
        return op.with_blocks(lambda block: replace(block, ops=tuple(map(padded, block.ops)))) if op.blocks else op

    return replace(program, body=replace(program.body, ops=tuple(map(padded, program.body.ops))))


def _wanted(program: Program):
    """(allocation, product that wants it padded), the first product last."""
    products = [op for op in program.where(lambda row: "scaled" in row.traits) if (op.a_format == _FP4) != (op.b_format == _FP4)]
    roots: dict[Value, frozenset[Value]] = memory_roots(program) if products else {}
    for op in reversed(products):
        operand = op.a if op.a_format == _FP4 else op.b
        for root in roots[operand]:
            yield root, op


def _padded(alloc: Op, product: Op) -> Op:
    """The allocation with the padded layout. LayoutConflict if its author pins another one."""
    type_, pinned = alloc.result.type, alloc.attrs.get("layout")
    layout = NvmmaShared(_SWIZZLE, type_.element.bits, len(type_.shape), fp4_padded=True)
    if pinned is not None and pinned != layout:
        raise LayoutConflict(f"{alloc.result.name or 'a buffer'} holds fp4 that async_dot_scaled multiplies by fp8: it lies "
                             f"padded, as {layout}, and its layout= argument pins {pinned}.", product.site, alloc.site,
                             hint="pin nv_mma_shared_layout_encoding.make_default(shape, dtype, True), or nothing.")
    return alloc.with_attrs(layout=layout)
