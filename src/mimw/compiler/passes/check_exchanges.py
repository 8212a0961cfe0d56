"""Waves exchange nothing in a stage, and each loop with stages has become a pipeline of just these stages.

Input: a program, how many stages Triton has added, and what its allocator decided. Output: nothing, or a `KernelError`. An example:

    with tlx.warp_pipeline_stage(): s = tl.sum(x, 1)        refused, if a row of `x` lies in several waves: these meet in memory

A stage is run by half of the waves while the other half is in another one. What Triton does through scratch memory (a change of
layout, a reduction across waves) takes all waves at one place. Only finished layouts tell; `check_warp_stages` refuses what no
layout could mend.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import KernelError
from ...ir import Op, Program
from ..analysis.warp_stages import staged
from ..storage import written


def check_exchanges(program: Program, unended: int, pieces: Iterable[Any]) -> None:
    """Raise `KernelError` for a piece of scratch memory of an op in a stage, and if Triton has made stages, `unended`, that are not
    the author's."""
    inside = set(_in_stages(program))
    numbers = {number: op for number, op in enumerate(program.walk()) if op in inside}
    for piece in pieces:
        if not piece.is_buffer and (op := numbers.get(piece.number)) is not None:
            raise KernelError(
                f"warp_pipeline_stage: {piece.op.partition('.')[2]} for {op.row.word} moves elements between waves through "
                f"{piece.end - piece.start} bytes of shared memory, and half of the waves are in another stage.", written(op.site),
                hint="do it outside of the loop, or lay the tile out so that each wave has what it needs: a reduction along a row "
                     "that lies in one wave (a product of more rows, or matrix_instr_nonkdim=16, has one for each wave), an "
                     "operand that is read from its buffer in the layout of the product.")
    if unended:
        raise no_pipeline(program, "a stage of its own of what its passes put behind the last one")


def no_pipeline(program: Program, made: str = "no pipeline of it") -> KernelError:
    """The error for a loop with stages of which Triton has made something else."""
    loop = next(op for op in program.named("for") if staged(op.blocks[0]) is not None)
    return KernelError(f"warp_pipeline_stage: Triton makes {made}.", loop.site,
                       hint="keep what the loop carries in the layout in which it is used: products and what is added to them.")


def _in_stages(program: Program) -> Iterable[Op]:
    for loop in program.named("for"):
        if (found := staged(loop.blocks[0])) is not None:
            for stage in found.stages:
                for op in stage.ops:
                    yield from op.walk()
