"""Cluster barriers that the author need not write, and those of kernels with tasks made to work.

Input: a program. Output: the program with cluster barriers at its start and at its end, if any CTA touches another:

    body       becomes       alloc_barriers ..; fence_mbarrier_init; cluster_barrier; body; cluster_barrier

A kernel that touches other CTAs may do so only when these have started and made their barriers, and only until they
leave. So all mbarriers are made first, and a cluster barrier stands at the start and at the end of the kernel. Where the
author has said `no_ending_cluster_sync`, a barrier of the CTA's own threads stands at the end: behind it tensor memory is freed.

The hardware waits for every thread of the cluster. Where a kernel has tasks, the warps of the others sleep outside of
the regions and would never come. There a cluster barrier becomes a region of its own, in which every warp calls it.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program, Task
from ..analysis import crosses_ctas, total_warps


def sync_clusters(program: Program) -> Program:
    """The program with its cluster's start-up and exit, if any of its CTAs touches another; every cluster barrier outside
    of tasks reaches all warps."""
    if program.cluster_size > 1 and crosses_ctas(program):
        made: list[Op] = []
        body = _without_memory(program.body, made)
        start = [*made, Op("fence_mbarrier_init", site=program.site), Op("cluster_barrier", site=program.site)]
        ends_with_one = bool(body.ops) and body.ops[-1].name == "cluster_barrier"
        ending = "barrier" if ends_apart(program) else "cluster_barrier"
        end = () if ends_with_one else (Op(ending, site=program.site), )
        program = replace(program, body=replace(body, ops=(*start, *body.ops, *end)))
    workers = total_warps(program) - program.num_warps
    if not workers or not program.named("cluster_barrier"):
        return program
    return replace(program, body=_reach_all(program.body, _tasks(program, workers)))


def ends_apart(program: Program) -> bool:
    """True if the author guarantees that at the end of a kernel with tensor memory no CTA touches another one."""
    regions = [op for op in program.named("warp_specialize") if not op.attrs.get("internal")]
    return any(op.attrs.get("no_ending_sync") for op in regions) and any(
        getattr(op.result.type, "space", "") == "tmem" for op in program.where(lambda row: row.allocates))


def _without_memory(block: Block, made: list[Op]) -> Block:
    """The block without the barriers and buffers that the whole kernel makes once, which go to `made`: not those of loops
    and tasks."""
    kept = []
    for op in block.ops:
        if op.row.allocates:
            made.append(op)
        elif "branch" in op.row.traits:
            kept.append(op.with_blocks(lambda inner: _without_memory(inner, made)))
        else:
            kept.append(op)
    return block.with_ops(kept)


def _tasks(program: Program, workers: int) -> tuple[Task, ...]:
    """Tasks that together are every warp of the CTA; a task's warps are a power of two."""
    tasks = [Task("cluster_barrier", program.num_warps, is_default=True, site=program.site)]
    while workers:
        size = 1 << (workers.bit_length() - 1)
        tasks.append(Task(f"cluster_barrier{len(tasks)}", size, site=program.site))
        workers -= size
    return tuple(tasks)


def _reach_all(block: Block, tasks: tuple[Task, ...]) -> Block:
    """The block with every cluster barrier that is not in a task as a region of all `tasks`."""
    ops = []
    for op in block.ops:
        if op.name == "cluster_barrier":
            blocks = tuple(Block((), (Op("cluster_barrier", site=op.site), )) for _ in tasks)
            ops.append(Op("warp_specialize", blocks=blocks, attrs={"tasks": tasks, "internal": True}, site=op.site))
        else:
            ops.append(op if op.name == "warp_specialize" else op.with_blocks(lambda inner: _reach_all(inner, tasks)))
    return block.with_ops(ops)
