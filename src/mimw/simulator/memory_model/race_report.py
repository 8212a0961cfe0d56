"""The error for two accesses that nothing orders: both accesses, the edge that is missing, and the least change that adds it.

Input: the earlier and the later access, and the bytes in which they conflict. Output: a `DataRace` of the kind that fits. For
example:

    'tiles'[0], bytes 0 to 8191: two accesses, and nothing orders task 'mma' ... before task 'load' ...: the second task waits ...
      task 'mma' of CTA (0, 0, 0): async_dot at gemm.py:31 reads 'tiles'[0], bytes 0 to 8191 of its memory (async proxy, ...)
      task 'load' of CTA (0, 0, 0): tma_load at gemm.py:20 writes 'tiles'[0], bytes 0 to 8191 of its memory (async proxy, ...)
"""

from __future__ import annotations

from ...compiler.analysis import pipe_arrays, pipe_sides
from ...compiler.analysis.barrier_ops import signals, waits
from ...compiler.analysis.launch_control import miscounted_by
from ...compiler.analysis.likely import likely_mend, uncommitted
from ...errors import (
    CopyReadEarly,
    DataRace,
    MissingFence,
    OperandOverwritten,
    PeerExited,
    SlotReusedEarly,
    SourceOverwritten,
    UnfinishedAtExit,
    fail,
)
from .between_gpus import between_gpus
from .clocks import VACANT

# The word that waits for operations of a group (`InFlight.group`).
_FINISHED_BY = {"wgmma": "async_dot_wait", "bulk": "async_descriptor_store_wait", "cp.async": "async_load_wait_group",
                "tdm": "async_amd_descriptor_wait"}

_READERS = ("bulk", "tdm", "tcgen05")       # groups of operations that read shared memory behind their op


def race(machine, earlier, later, span: tuple[int, int], fence: bool = False, writes: tuple = ()) -> DataRace:
    """The error for `later`, which conflicts with `earlier` in the bytes `span` of their memory, after `writes` there."""
    if not fence and _taken_away(earlier, later):
        earlier, later = later, earlier
    if not fence and earlier.strand.task.cta.gpu is not later.strand.task.cta.gpu:
        kind, missing, hint, sites = between_gpus(machine.order.ears, earlier, later, writes)
    else:
        kind = MissingFence if fence else _kind(earlier, later)
        missing, hint, sites = _fence(earlier, later) if fence else _edge(machine, earlier, later)
    hint = miscounted_by(machine.program, later.op) or (likely_mend(machine.program) if later.space == "shared" else "") or hint
    pipe = _pipe_between(machine, earlier, later)
    lines = [f"{later.name}{_extent(later, span)}: two accesses, and {missing}.",
             f"  {_side(earlier)}{_behind(earlier, pipe)}", f"  {_side(later)}{_behind(later, pipe)}"]
    error = kind("\n".join(lines), earlier.op.site, later.op.site, *sites, hint=hint)
    error.space = later.space
    return error


def _taken_away(earlier, later) -> bool:
    """True if `earlier` wrote where `later` reads what was there before: the read should have come first. The reader knows of a
    write that this one took the place of, and not that this one has begun."""
    first, second = earlier.strand, later.strand
    if later.write or not earlier.write or later.space != "shared" or first.task is second.task:
        return False
    begun = first.issued if first.issued is not None else earlier.epoch
    return not begun.before(second.clock) and any(epoch.before(second.clock) for epoch in earlier.over)


def unfinished(operation, task) -> UnfinishedAtExit | PeerExited:
    """The error for a copy that the CTA of `task`, its last one, need not outlive."""
    wait = _FINISHED_BY.get(operation.group)
    if task.cta is not operation.task.cta:
        return fail(PeerExited, operation.task, operation.op, f"{task.cta} may leave before the {operation.kind} that "
                    f"was started at {operation.op.site} has landed in its shared memory",
                    hint=f"let {task.cta} wait for the phase of its barrier that this completes, before it ends")
    mend = f"call {wait}(0) in {operation.task.name!r} before it ends" if wait else \
        "wait for the phase of the barrier that it completes, or do not start it"
    return fail(UnfinishedAtExit, operation.task, operation.op, f"the CTA may end before the {operation.kind} that was started at "
                f"{operation.op.site} is done, and its shared memory then belongs to another one", hint=mend)


def _kind(earlier, later) -> type[DataRace]:
    if earlier.space == "global":
        return DataRace
    if earlier.space == "descriptor":
        if earlier.write or not later.write:
            return DataRace
        return SourceOverwritten if earlier.strand.group == "bulk" else SlotReusedEarly
    if not earlier.write and not _is_dot(earlier) and earlier.strand.group not in _READERS:
        return SlotReusedEarly if earlier.strand.task is not later.strand.task else DataRace
    copied = earlier.write and earlier.strand.issued is not None
    if copied:
        return CopyReadEarly
    if _is_dot(earlier) and later.write:
        return OperandOverwritten
    if _is_dot(later) and earlier.write:
        return DataRace
    if earlier.strand.group in _READERS and later.write:
        return SourceOverwritten
    return DataRace


def _is_dot(access) -> bool:
    """True if the access is one of an asynchronous dot to its operands."""
    return "dot" in access.op.row.traits


def _side(access) -> str:
    strand = access.strand
    verb = ("updates" if access.scope else "writes") if access.write else "reads"
    how = f"{access.proxy} proxy" + (", in flight after the op" if strand.issued is not None else "")
    if access.proxy is VACANT:
        verb, how = ("allocates again", "the same memory") if access.op.row.allocates else ("frees", "it is nobody's then")
    where = _extent(access, access.bytes) and f"{_extent(access, access.bytes)} of its memory"
    return f"{strand.task.where}: {access.op.name} at {access.op.site} {verb} {access.name}{where} ({how})"


def _extent(access, span: tuple[int, int]) -> str:
    """The bytes of a span; nothing of tensor memory, where a buffer is some columns of every lane, nor of a descriptor."""
    return "" if access.space in ("tensor", "descriptor") else f", bytes {span[0]} to {span[1] - 1}"


def _pipe_between(machine, earlier, later) -> tuple:
    """The arrays of barriers of the pipe in whose slot two accesses meet: the pipe on whose barriers a copy of the two lands, else
    one that leads from the one task to the other; () if there is none."""
    sides = pipe_sides(machine.program)
    if not sides:
        return ()
    ops = earlier.op, later.op
    lands = [found.barrier.root for found in signals(machine.program) if found.op in ops]
    one, other = earlier.strand.task, later.strand.task
    leads = [arrive.barrier.root for arrive, _ in (*_edges(machine, one, other, True), *_edges(machine, other, one, True))]
    root = next((root for root in (*lands, *leads) if root in sides), None)
    return pipe_arrays(machine.program, root) if root is not None else ()


def _behind(access, pipe: tuple) -> str:
    """The last call of the pipe's methods that the task of an access had made when it made the access; of a copy into a slot, the
    chunk that the copy is part of: such a copy is announced before it starts, as if the commit stood in front of it."""
    strand = access.strand
    tick = (strand.issued or access.epoch).tick
    call = strand.task.last_call(lambda call: call.barrier.root in pipe and call.tick < tick) if pipe else None
    if call is None:
        return ""
    filled = access.op.row.barrier == "complete"
    return f", of {call.barrier.pipe.chunk(call.chunk)}" if filled else f", behind {call}"


def _fence(earlier, later):
    """(what is missing, the mend, further sites) of accesses in two proxies that are ordered and not fenced."""
    first, other = earlier.strand.task, later.strand.task
    verb = "write" if earlier.write else "read"
    then = "overwrites" if later.write else "reads"
    missing = f"the {verb} is in the generic proxy and {later.op.name} {then} through the asynchronous proxy, with no fence between"
    if later.space == "global":
        where = f"between {earlier.op.site} and {later.op.site}" if first is other else (
            f"in {first.where} after {earlier.op.site} and before the op that lets {other.where} go on, or in the latter before "
            f"{later.op.site}")
        return missing, f'put fence("gpu") {where}', ()
    whom = "filler" if later.write else "reader"
    place = f"after {earlier.op.site}" + ("" if first is other else f", before the arrive that lets the {whom} go on")
    return missing, f'put fence("async_shared") in {first.name!r} {place} and before {later.op.site}', ()


def _edge(machine, earlier, later):
    """(what is missing, the mend, further sites)."""
    first, second = earlier.strand, later.strand
    if first.issued is not None and first.issued.before(second.clock):
        return _unfinished(machine, earlier, later)
    if first.task is second.task:
        return ("nothing orders the two operations in flight",
                f"finish the one of {earlier.op.site} with a wait before {later.op.site}", ())
    swapped = later.space == "global" and later.write and not earlier.write
    if swapped:     # Nothing says which should be first; that a read sees the write is what is mostly meant.
        earlier, later = later, earlier
    missing, hint, sites = _between(machine, earlier, later)
    return missing, hint + (", or swap the two if the read must see the old value" if swapped else ""), sites


def _between(machine, earlier, later):
    """The edge that is missing, in the form of `_edge`, of accesses of two tasks of which the first should come first."""
    one, other = earlier.strand.task, later.strand.task
    if one.cta is not other.cta and (one.cta.cluster is not other.cta.cluster):
        if earlier.op is later.op and earlier.write and later.write:        # a result that two programs write
            return (f"nothing orders {one.where} before {other.where}",
                    f"let each program store to a place of its own: what {earlier.op.site} stores to must depend on tl.program_id "
                    f"along each dimension of the grid {machine.grid} that is larger than 1; or add up by tl.atomic_add", ())
        return (f"nothing orders {one.where} before {other.where}",
                f"order them by an atomic with release in {one.name!r} after {earlier.op.site} and one with acquire in "
                f"{other.name!r} before {later.op.site}, both of scope gpu (a plain store or load of a flag orders nothing), or "
                "let each CTA write a place of its own", ())
    near = one.cta is other.cta
    if near and earlier.write and earlier.strand.issued is not None and (landing := _landing(machine, earlier, later)):
        return landing
    edges = _edges(machine, one, other, near)
    if not edges:
        if near:
            return (f"no barrier leads from {one.name!r} to {other.name!r} of {one.cta}",
                    f"let {one.name!r} arrive on a barrier after {earlier.op.site} and {other.name!r} wait for it before "
                    f"{later.op.site}", ())
        return (f"no barrier leads from {one.where} to {other.where}",
                f"call cluster_barrier after {earlier.op.site} and before {later.op.site}, or let {one.name!r} of CTA "
                f"{one.cta.index} call barrier_arrive(..., remote_cta_rank={other.cta.rank}) after the first, and {other.name!r} "
                f"of {other.cta} wait on that barrier before the second", ())
    arrive, wait = edges[0]
    pipe = pipe_sides(machine.program).get(arrive.barrier.root)
    if pipe is not None:
        bring, look = pipe.verb(arrive.op), pipe.verb(wait.op)
        return (f"nothing orders {one.where} before {other.where}: the {look} of the second task waits for {pipe.pipe}, but not "
                f"for a {bring} of the first task after its access",
                f"the {bring} at {arrive.op.site} must come after {earlier.op.site}, and the {look} at {wait.op.site} before "
                f"{later.op.site}, for the same chunk", (arrive.op.site, wait.op.site))
    name = arrive.barrier.root.name or "the barrier"
    return (f"nothing orders {one.where} before {other.where}: the second task waits for {name!r}, but not for an arrival of the "
            "first task after its access",
            f"the arrive at {arrive.op.site} must come after {earlier.op.site}, and the wait at {wait.op.site} before "
            f"{later.op.site}, for the phase that this arrive completes", (arrive.op.site, wait.op.site))


def _landing(machine, earlier, later):
    """The edge, in the form of `_edge`, from a copy that completes a barrier of its CTA's to a task that does not wait for it; None
    if the earlier access is no such copy."""
    one, other = earlier.strand.task, later.strand.task
    barrier = next((found.barrier.root for found in signals(machine.program) if found.op is earlier.op and not found.is_remote
                    and found.op.row.barrier == "complete"), None)
    if barrier is None or barrier in pipe_sides(machine.program):
        return None
    name = barrier.name or "the barrier"
    looks = [found.op.site for found in waits(machine.program) if (found.task or "default") == other.name
             and found.barrier.root is barrier]
    also = f"; its waits for {name!r} are at {', '.join(map(str, dict.fromkeys(looks)))}" if looks else ""
    return (f"nothing orders {one.where} before {other.where}: the second task has not waited for {name!r}, which the "
            f"{earlier.op.name} completes when it has landed",
            f"wait in {other.name!r} before {later.op.site} for the phase of {name!r} that the {earlier.op.name} of "
            f"{earlier.op.site} completes{also}", tuple(dict.fromkeys(looks)))


def _edges(machine, one, other, near: bool) -> list:
    """(arrive, wait) pairs of ops by which task `one` can let task `other` go on; `near`: of the same CTA."""
    arrives = [found for found in signals(machine.program) if (found.task or "default") == one.name
               and found.op.row.barrier in ("arrive", "expect", "commit") and (near or found.is_remote)]
    looks = [found for found in waits(machine.program) if (found.task or "default") == other.name]
    return [(arrive, wait) for arrive in arrives for wait in looks if wait.barrier.root is arrive.barrier.root]


def _pipe_of(machine, op):
    """The side of a pipe on whose barriers an op arrives or lands; None if that is no pipe's."""
    sides = pipe_sides(machine.program)
    return next((sides.get(found.barrier.root) for found in signals(machine.program) if found.op is op), None) if sides else None


def _unfinished(machine, earlier, later):
    """The later access comes after the start of an operation, but not after its end."""
    first, other = earlier.strand, later.strand.task
    wait = _FINISHED_BY.get(first.group)
    if wait is None and first.lands_in not in (None, other.cta):
        return (f"the second comes after the start of the {first.kind}, not after its landing in {first.lands_in}",
                f"let {first.lands_in} wait for the phase that the {first.kind} completes and then call "
                f"barrier_arrive(..., remote_cta_rank={other.cta.rank}) on a barrier for which {other.name!r} waits before "
                f"{later.op.site}", ())
    if wait is None and _pipe_of(machine, earlier.op) is not None:
        mend = (f"fill each field of a slot in one way, between acquire and commit, and leave it alone at {later.op.site}"
                if first.task is other else f"let {other.name!r} call its reader's wait for the chunk before {later.op.site}")
        return f"the second comes after the start of the {first.kind}, not after its landing", mend, ()
    if wait is None:
        return (f"the second comes after the start of the {first.kind}, not after its landing",
                f"wait in {other.name!r} before {later.op.site} for the phase of the barrier that the {first.kind} completes", ())
    missing = f"the second comes after the start of the {first.kind}, not after its end"
    if first.task is other and wait == "async_load_wait_group" and uncommitted(machine.program, earlier.op):
        return missing, (f"put async_load_commit_group behind {earlier.op.site}: {wait} does not wait for a copy that belongs to "
                         "no group"), ()
    if first.task is other:
        return missing, f"put {wait} between {earlier.op.site} and {later.op.site}, with few enough pending", ()
    edges = _edges(machine, first.task, other, first.task.cta is other.cta)
    arrives, pipe = [arrive.op.site for arrive, _ in edges], None
    if edges:
        pipe = pipe_sides(machine.program).get(edges[0][0].barrier.root)
    place = f"at {', '.join(map(str, dict.fromkeys(arrives)))} " if arrives else ""
    return (missing, f"{first.task.name!r} must call {wait}, with few enough pending, after {earlier.op.site} and before the "
            f"{'arrive' if pipe is None else pipe.brings} {place}that lets {other.name!r} go on", tuple(dict.fromkeys(arrives)))
