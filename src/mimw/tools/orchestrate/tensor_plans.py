"""The plans that the search tries on a chip with tensor memory.

Input: a plain program. Output: `Plan`s, in their order. For example:

    list(tensor_plans(program))     of tiles of 128 rows: one task that computes, by four warps and by eight; of 256 rows: two tasks

A multiprocessor has one tensor memory for all its programs, so no plan asks for several programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.orchestrate.plan import Plan
from ...ir import Program

ROWS = 128          # that tcgen05 multiplies at a time; of 64 it does half as many in the same time


def tensor_plans(program: Program) -> Iterator[Plan]:
    """The plans: with a program a tile, and with programs that take tiles in turn, whose stores may run on beside the next tile."""
    warps, products = program.num_warps, program.named("dot")
    rows = min((op.a.type.shape[-2] for op in products), default=ROWS)
    if rows >= 2 * ROWS:
        shapes = [(2, None)] + [(2, 8)] * (warps >= 16)
    else:
        shapes = [(1, None), (1, 4 if warps > 4 else 8)]
    stores = [False, True] if program.named("descriptor_store") else [False]
    for consumers, each in shapes:
        for delayed in [True, False] if len(products) > 1 else [False]:
            yield Plan(consumers=consumers, warps=each, delayed=delayed)
            for run_on in stores:
                yield Plan(consumers=consumers, warps=each, delayed=delayed, persistent=True, stores=run_on)
