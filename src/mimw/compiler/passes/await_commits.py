"""The last commits of a pair of CTAs, for which no task waits, land before the pair ends.

Input: a program. Output: with products of pairs, the program whose tasks wait at their end for what they have committed:

    tcgen05_commit_pair %free                     tcgen05_commit_pair %free
                                   becomes        tcgen05_commit_pair %landed; barrier_wait %landed, 0

The last round of a ring frees slots that are not filled again, so no task waits for these commits. Each arrives in both CTAs of the
pair, maybe when they have ended: their shared memory is then another CTA's. A commit is over when all that its task put into the
queue before it is (PTX ISA, tcgen05 pipelined instructions), so one more commit, in both CTAs, shows that the others have landed,
and the cluster barrier at the end of the kernel stands behind it. `late_commits` says which commits these are, as remarks.
Nothing is put in where the author has said `no_ending_cluster_sync`: then the end is the author's, and a commit that comes late
is `PeerExited`.

Taken as awaited is a commit on a barrier for which its own task waits later, or a task that reads tensor memory then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...ir import I32, Block, Builder, Op, Program, Task
from ...ir.flow import terminator
from ...target import Target
from ..analysis import Remark, barrier_arrays, uses_of
from .pair_commits import commit_of_the_pair
from .sync_clusters import ends_apart


def late_commits(program: Program, target: Target) -> Iterable[Remark]:
    """A remark on the last commit of each task, if no task waits for it."""
    for op in _late(program).values():
        yield Remark("no task waits for this commit, which arrives in both CTAs of the pair. The compiler makes both CTAs wait for "
                     "it at their end, so that it arrives before they exit.", op.site)


def await_commits(program: Program) -> Program:
    """The program with such waits; the same object if there are none."""
    late = _late(program)
    if not late:
        return program
    made = Builder()
    barriers = {task: made.emit("alloc_barriers", (1, 1), op.site, label="landed") for task, op in late.items()}
    body = program.body.with_ops(tuple(_in_tasks(op, late, barriers) for op in program.body.ops))
    if None in late:
        body = _waiting(body, late[None], barriers[None])
    return replace(program, body=replace(body, ops=(*made.close([]), *body.ops)))


def _late(program: Program) -> dict[Task | None, Op]:
    """The last commit of each task that runs once and has one for which no task waits; by None that of the kernel's own body."""
    commits = program.where(lambda row: row.barrier == "commit" and row.peers)
    if not commits or ends_apart(program):
        return {}
    uses = uses_of(program)
    once = {task for op in program.body.ops if op.name == "warp_specialize" for task in op.attrs["tasks"]} | {None}
    last = {uses.task(op): op for op in commits}
    readers = {uses.task(op) for op in program.walk() for name in op.row.reads if getattr(op, name).type.space == "tmem"
               and "async" not in op.row.effects}
    awaited = set()
    for array in (array for array in barrier_arrays(program, uses) if not array.escapes):
        waits = array.of_kind("wait")
        awaited |= {access.op for access in array.accesses if any(wait.task in readers or wait.task is access.task and
                    uses.position[wait.op] > uses.position[access.op] for wait in waits)}
    return {task: op for task, op in last.items() if task in once and op not in awaited}


def _in_tasks(op: Op, late: dict, barriers: dict) -> Op:
    if op.name != "warp_specialize":
        return op
    tasks = iter(op.attrs["tasks"])
    return op.with_blocks(lambda block: _waiting(block, late[task], barriers[task]) if (task := next(tasks)) in late else block)


def _waiting(block: Block, commit: Op, barriers) -> Block:
    """The block with a commit and a wait at its end, of the CTAs of `commit`."""
    writer, site = Builder(commit.site), commit.site
    kept, ending = (block.ops[:-1], block.ops[-1:]) if terminator(block) else (block.ops, ())
    landed = writer.emit("barrier_index", (barriers, writer.constant(0, I32, site)), site)
    commit_of_the_pair(writer, landed, site)
    writer.emit("barrier_wait", (landed, writer.constant(0, I32, site)), site)
    return block.with_ops((*kept, *writer.close([]), *ending))
