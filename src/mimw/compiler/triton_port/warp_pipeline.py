"""Pipelines that Triton has made of loops with borders between stages.

Input: a module before Triton's last passes over TTGIR, and after them. Output: `Pipelines`, the numbers of loops:

    pipelines(module, final)        Pipelines(wanted=1, made=1, longer=0)

Triton's pass (`add_warp_pipeline`) leaves a loop that it cannot take as it is, and takes ops behind the last border for a stage of
their own; it says neither.
"""

from __future__ import annotations

from dataclasses import dataclass

_BORDER, _STAGE, _MADE = "triton.warp_pipeline.border", "triton.warp_pipeline.stage", "triton.warp_pipeline.pipelined_for"
_BEHIND = "last_cluster"       # Triton's name of a stage that no border ends


@dataclass(frozen=True)
class Pipelines:
    """Loops with borders, those of them that are pipelines, and pipelines with a stage that has no border of its own."""

    wanted: int
    made: int
    longer: int


def pipelines(module, final) -> Pipelines:
    """The pipelines of `final`, beside the loops of `module` that should be some."""
    bordered, wanted = set(), 0

    def look(op) -> None:
        nonlocal wanted
        if op.get_str_attr(_BORDER) is not None:
            bordered.add(op.get_block().get_parent().id())
        elif op.get_name() == "scf.for" and op.get_region(0).id() in bordered:     # the walk comes to a loop behind its body
            wanted += 1

    module.walk(look)
    text = str(final)
    return Pipelines(wanted, text.count(_MADE), text.count(f'{_STAGE} = "{_BEHIND}"'))
