"""Atomics of AMD's buffer instructions that a chip has not, or that a mask cuts.

Input: a program and its target. Output: nothing, or an error with the author's line. For example:

    buffer_atomic_add of bf16 on gfx942                 TargetError: it has no buffer atomics on pairs of bf16
    the same of fp16, mask=tl.arange(0, 64) < 33        KernelError: elements 32 and 33 are added by one instruction

LLVM ends the process at an instruction that it does not know. A mask that only a run decides is the simulator's to judge.
"""

from __future__ import annotations

from ...errors import KernelError, TargetError, excerpt
from ...ir import Program
from ...target import FEATURES, TARGETS, Target
from ..analysis import uses_of
from ..analysis.mask_runs import cut_at

_PAIRS, _BF16 = 2, "buffer_atomics_bf16"


def check_buffer_atomics(program: Program, target: Target) -> None:
    """Raise `TargetError` or `KernelError` for the first such atomic."""
    for op in program.named("buffer_atomic_add"):
        element = op.value.type.element
        if element.name == "bf16" and not target.has(_BF16):
            other = next(chip for chip in TARGETS.values() if chip.has(_BF16))
            raise TargetError(f"TargetError at {op.site}: {target} cannot do 'buffer_atomic_add' of bf16: it has no "
                              f"{FEATURES[_BF16]}.\nMend: add in tl.float16 or tl.float32 there, or compile for a target that "
                              f"has it, such as {other}.\n{excerpt(op.site)}".rstrip())
        place = None if op.mask is None or element.bytes != _PAIRS else cut_at(uses_of(program), op.mask, _PAIRS)
        if place is not None:
            raise KernelError(f"buffer_atomic_add: elements {place - 1} and {place} of a row are added by one instruction, and the "
                              "mask takes one of them", op.site, hint="mask both of a pair alike, or add in tl.float32")
