"""`tl.dot_scaled` of operands of 16 bits that both have scales, where Triton takes the tensor cores' scaled product for it.

Input: a program and its target. Output: nothing, or a `KernelError` with the line and the mend. For example, on sm_100a:

    tl.dot_scaled(a, sa, "fp16", b, sb, "e4m3")       refused for 128 rows of a: tcgen05 multiplies 8 bits and fewer by scales

PTX ISA, "tcgen05.mma, block scaling": its kinds are mxf8f6f4, mxf4 and mxf4nvf4. Triton 3.9 chooses it by shape, warps and scales
alone (128 rows or a multiple, 16 columns or more, 4 or 8 warps), and then ends in "PassManager::run failed"; every other product it
makes of converted operands.
"""

from __future__ import annotations

from ...errors import KernelError
from ...ir import Block, Program
from ...ir.extents import padded
from ...target import Target

_ROWS, _COLUMNS, _WARPS = 128, 16, (4, 8)


def check_scaled_dots(program: Program, target: Target) -> None:
    """Raise `KernelError` for the first scaled product that becomes one of the tensor cores', which have it not."""
    if target.mma == "tcgen05" and program.named("dot_scaled"):
        _visit(program.body, program.num_warps, program.num_warps, target)


def _visit(block: Block, num_warps: int, default: int, target: Target) -> None:
    for op in block.ops:
        if op.name == "dot_scaled" and num_warps in _WARPS:
            _check(op, target)
        tasks = op.attrs["tasks"] if op.name == "warp_specialize" else [None] * len(op.blocks)
        for inner, task in zip(op.blocks, tasks, strict=True):
            own = num_warps if task is None else default if task.is_default else task.num_warps
            _visit(inner, own, default, target)


def _check(op, target: Target) -> None:
    rows, columns = padded(op.acc.type.shape[-2:])      # Triton looks at what `pad_tiles` makes of them
    wide = next((name for name in ("a", "b") if getattr(op, name).type.element.bits == 16), None)
    if wide and op.a_scale is not None and op.b_scale is not None and rows % _ROWS == 0 and columns >= _COLUMNS:
        element = getattr(op, wide).type.element
        raise KernelError(f"operand {wide} of tl.dot_scaled is {element}, both operands have scales, and {target} "
                          f"multiplies no more than 8 bits by scales.", op.site,
                          hint=f"give None for the scales of {wide}, multiplied into it before, or make it fp8.")
