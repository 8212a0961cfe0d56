"""What each `distributed_barrier` is made of, once the launch is known.

Input: a program. Output: the program without `distributed_barrier`:

    distributed_barrier ranks=(0, 2)       becomes       group_barrier %ranks_0_2 ranks=(0, 2), and an alloc_barriers at the start

All CTAs of a cluster have a barrier in hardware, and so do the threads of one CTA. A part of a cluster gets an mbarrier
of its own in each CTA, made at the start of the kernel: every member arrives on the mbarriers of all members and waits
for its own.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Barrier, Block, Op, Program, Value


def place_group_barriers(program: Program) -> Program:
    """The program without `distributed_barrier`."""
    if not program.named("distributed_barrier"):
        return program
    groups: dict[tuple[int, ...], Op] = {}
    body = _block(program, program.body, groups)
    return replace(program, body=replace(body, ops=(*groups.values(), *body.ops)))


def _block(program: Program, block: Block, groups: dict) -> Block:
    ops = tuple(_op(program, op, groups) for op in block.ops)
    return block.with_ops(ops)


def _op(program: Program, op: Op, groups: dict) -> Op:
    if op.name != "distributed_barrier":
        return op.with_blocks(lambda block: _block(program, block, groups))
    ranks = op.attrs.get("ranks")
    if op.attrs["grid"]:
        return Op("grid_barrier", site=op.site)
    if program.cluster_size == 1 or ranks is not None and len(ranks) == 1:
        return Op("barrier", site=op.site)
    if ranks is None:
        return Op("cluster_barrier", site=op.site)
    if ranks not in groups:
        barrier = Value(Barrier(1), f"ranks_{'_'.join(map(str, ranks))}")
        groups[ranks] = Op("alloc_barriers", (1, len(ranks)), (barrier, ), site=op.site)
    return Op("group_barrier", (groups[ranks].result, ), attrs={"ranks": ranks}, site=op.site)
