"""Barriers that wait for arrivals which cannot come, in any CTA of a cluster.

Input: a program. Output: nothing, or `TooFewArrivals` or `TooManyArrivals` with the author's lines. For example:

    full = alloc_barriers(1, arrive_count=2)       one task arrives once, and another task waits: that wait never returns

A barrier completes a phase after `arrive_count` arrivals. This check speaks only where it is certain; a kernel that it
lets pass may still hang, and the simulator is the place to find that. It is certain of four things: more arrivals at
once than a phase takes; commits of one stretch of a task that complete two phases, so that no task can see the first
of them in time; a wait for a phase that all the arrivals of the kernel together, each as often as its loops go
round, do not complete; and slots that no task releases, so that the task that fills them passes once round the ring
and then never again.
"""

from __future__ import annotations

from ...errors import TooFewArrivals, TooManyArrivals
from ...ir import Op, Program
from ...ir.flow import bounds
from ...target import Target
from ..analysis import (
    BarrierAccess,
    BarrierArray,
    Symbols,
    Uses,
    barriers_of_each_cta,
    constant_of,
    first_value,
    ring_of_filler,
    ring_of_wait,
    split_offset,
    task_label,
    uses_of,
)
from ..analysis.likely import as_written

_PER_THREAD = ("each thread of the arriving task counts: give alloc_warp_barrier the task's num_warps, and as num_arrivals how "
               "often it arrives in a phase.")


def check_arrivals(program: Program, target: Target) -> None:
    """Raise `TooFewArrivals` or `TooManyArrivals` for the first array whose phases certainly get so."""
    uses = uses_of(program)
    for array in barriers_of_each_cta(program, uses):
        if array.escapes or uses.loops(array.op):
            continue
        _too_many(uses, array)
        _committed_twice(uses, array)
        first: dict[int | None, list[BarrierAccess] | None] = {}       # of each slot, for all of its waits
        for wait in array.of_kind("wait"):
            if _never(uses, wait):
                continue
            arrivals = _first_phase(uses, array, wait, first)
            if arrivals is None:
                arrivals = _every_phase(uses, array, wait)
            if arrivals is not None and sum(one.count for one in arrivals) < array.arrive_count:
                _too_few(array, wait, arrivals)
            _unreleased(uses, array, wait)


def _arriving(uses: Uses, array: BarrierArray) -> list[BarrierAccess]:
    return [one for one in array.of_kind("arrive", "expect", "commit") if not _never(uses, one)]


def _never(uses: Uses, access: BarrierAccess) -> bool:
    return access.predicate is not None and constant_of(uses, access.predicate) == 0


def _first_phase(uses: Uses, array: BarrierArray, wait: BarrierAccess, known: dict) -> list[BarrierAccess] | None:
    """All arrivals that the wait's first phase can ever get, if each is passed at most once in the kernel; else None."""
    if wait.predicate is not None and constant_of(uses, wait.predicate) is None:
        return None
    # Under an `if` the first round of the loops need not be the first time that the wait is reached.
    value_of = constant_of if uses.conditional(wait.op) else first_value
    if value_of(uses, wait.op.phase) != 0:
        return None
    slot = value_of(uses, wait.index)
    if slot not in known:
        known[slot] = _at_most_once(uses, array, slot)
    return known[slot]


def _at_most_once(uses: Uses, array: BarrierArray, slot: int | None) -> list[BarrierAccess] | None:
    """All arrivals at a slot, any where it is None; None if one of them stands in a loop."""
    found = []
    for one in _arriving(uses, array):
        other = constant_of(uses, one.index)
        if slot is not None and other is not None and slot != other:
            continue
        if uses.loops(one.op):
            return None
        found.append(one)
    return found


def _every_phase(uses: Uses, array: BarrierArray, wait: BarrierAccess) -> list[BarrierAccess] | None:
    """The arrivals at the wait's barrier in each round, if they go round with the wait through the same slots; else None."""
    return _with_the_wait(uses, array, wait, ring_of_wait(uses, wait))


def _with_the_wait(uses: Uses, array: BarrierArray, wait: BarrierAccess, ring: int | None) -> list[BarrierAccess] | None:
    symbols = Symbols(uses)
    rounds = symbols.loops(wait.op)
    if rounds is None or ring is None:
        return None
    slot, offset = _slot(uses, symbols, wait)
    found = []
    for one in _arriving(uses, array):
        other, distance = _slot(uses, symbols, one)
        if slot is None or other != slot:
            return None
        if abs(distance - offset) >= ring:
            continue
        if distance != offset or symbols.loops(one.op) != rounds:
            return None
        found.append(one)
    return found


def _unreleased(uses: Uses, array: BarrierArray, wait: BarrierAccess) -> None:
    """Refuse a ring whose slots get fewer arrivals a round than a phase takes, unless it is certainly used only once round."""
    ring = ring_of_filler(uses, wait)
    if ring is None or not uses.loops(wait.op):
        return
    arrivals = _with_the_wait(uses, array, wait, ring) if _arriving(uses, array) else []
    if arrivals is None or sum(one.count for one in arrivals) >= array.arrive_count:
        return
    rounds = _rounds(uses, wait)
    if rounds is not None and rounds <= ring:
        return
    if array.pipe is not None:
        _unreleased_slots(array, wait, arrivals)
    who = "".join(f"; a round brings {_what(one)} of task '{task_label(one.task)}' at {one.op.site}" for one in arrivals)
    raise TooFewArrivals(
        f"the slots of {array} are not released: a phase takes {_arrivals(array.arrive_count)}"
        f"{who or ', and nothing ever arrives there'}. The wait of task '{task_label(wait.task)}' at {wait.op.site} passes "
        f"once for each of the {array.count} barriers, and never again.",
        array.op.site, wait.op.site, *(one.op.site for one in arrivals),
        hint="let the task that has used a slot arrive on its barrier, or leave the wait out if every slot is used once.")


def _unreleased_slots(array: BarrierArray, wait: BarrierAccess, arrivals: list[BarrierAccess]) -> None:
    """Refuse a pipe's slots that are not released, in the words of the pipe's user."""
    pipe, sites = array.pipe, [one.op.site for one in arrivals]
    come = f"only {len(arrivals)} of the {array.arrive_count} readers" if arrivals else "no reader"
    raise TooFewArrivals(
        f"{come} of {pipe.pipe} {'release' if arrivals else 'releases'} its {array.count} slots. The acquire of task "
        f"'{task_label(wait.task)}' at {wait.op.site} passes once for each slot, and never again.",
        array.op.site, wait.op.site, *sites,
        hint="let every reader call release(k) for each chunk k, behind its last use of the slot.")


def _rounds(uses: Uses, access: BarrierAccess) -> int | None:
    """The number of times that an op in one loop is passed, if that is certain; else None."""
    loops = uses.loops(access.op)
    if len(loops) != 1 or loops[0].name != "for":
        return None
    start, end, step = (constant_of(uses, value) for value in bounds(loops[0]))
    return None if None in (start, end, step) or step <= 0 else max(0, -(-(end - start) // step))


def _slot(uses: Uses, symbols: Symbols, access: BarrierAccess) -> tuple[tuple | None, int]:
    """The barrier of its ring that an access uses, in a form to compare (None: unknown), and the index in the array where the
    ring starts."""
    if access.index is None:
        return None, 0
    value, offset = split_offset(uses, access.index)
    return ("fixed", ) if value is None else symbols.of(value), offset


def _too_many(uses: Uses, array: BarrierArray) -> None:
    for one in array.of_kind("arrive") if array.pipe is None else ():
        at_once = one.count // one.times
        if at_once > array.arrive_count and not _never(uses, one):
            raise TooManyArrivals(
                f"{array} takes {_arrivals(array.arrive_count)} a phase, and task '{task_label(one.task)}' arrives "
                f"{at_once} times at once. The surplus arrivals corrupt the barrier.", one.op.site, array.op.site,
                hint=_PER_THREAD if array.root.type.per_thread else
                f"allocate with arrive_count={at_once}, or arrive {_times(array.arrive_count)}.")


def _committed_twice(uses: Uses, array: BarrierArray) -> None:
    """Refuse a barrier that a product is given, and a commit behind it: two phases, with nothing between that could let the
    task that waits for the first one see it."""
    stretch = _stretch_of_commits(uses, array)
    if array.pipe is not None or sum(one.count for one in stretch) < 2 * array.arrive_count:
        return
    symbols = Symbols(uses)
    slot = _slot(uses, symbols, stretch[0])
    waits = [one for one in array.of_kind("wait") if _slot(uses, symbols, one) == slot and _waits_for_the_first(uses, one)]
    if waits:
        wait = waits[0]
        task, (one, other) = task_label(stretch[0].task), stretch[:2]
        first, second = (f"{_committed(uses, each)} at {each.op.site}" for each in (one, other))
        raise TooManyArrivals(
            f"{array} takes {_arrivals(array.arrive_count)} a phase, and task '{task}' lets {first} and {second} arrive there, "
            f"with no wait between. So two phases end, and the wait of task "
            f"'{task_label(wait.task)}' at {wait.op.site} may find the second one over, and wait for ever.",
            one.op.site, other.op.site, wait.op.site, array.op.site,
            hint=f"give the barrier to one of the two, or allocate it with arrive_count={sum(each.count for each in stretch)}.")


def _stretch_of_commits(uses: Uses, array: BarrierArray) -> list[BarrierAccess]:
    """The arrivals at a barrier of the array, if all of them are commits that one task issues one after the other, without a
    wait between; else an empty list."""
    arrivals, symbols = _arriving(uses, array), Symbols(uses)
    if len(arrivals) < 2 or any(one.kind != "commit" for one in arrivals):
        return []
    first, last, block = arrivals[0].op, arrivals[-1].op, uses.place[arrivals[0].op].block
    same = [(_slot(uses, symbols, one), _condition(symbols, one)) for one in arrivals]
    if None in (same[0][0][0], same[0][1]) or same != same[:1] * len(same):
        return []
    if any(uses.place[one.op].block is not block for one in arrivals):
        return []
    begin, end = uses.position[first], uses.position[last]
    return [] if any(_may_wait(op) for op in block.ops if begin < uses.position[op] < end) else arrivals


def _condition(symbols: Symbols, access: BarrierAccess) -> tuple | None:
    """The predicate under which an access happens, in a form to compare (None: unknown)."""
    return ("always", ) if access.predicate is None else symbols.of(access.predicate)


def _may_wait(op: Op) -> bool:
    """True if the task may be held up at the op, or at one inside it."""
    return any("sync" in one.row.effects or one.attrs.get("waits") for one in op.walk())


def _waits_for_the_first(uses: Uses, wait: BarrierAccess) -> bool:
    """True if the op surely waits, and the first time for the first phase."""
    if wait.predicate is not None and not constant_of(uses, wait.predicate):
        return False
    return (constant_of if uses.conditional(wait.op) else first_value)(uses, wait.op.phase) == 0


def _committed(uses: Uses, one: BarrierAccess) -> str:
    """The cause of a commit, in words: the product of its line, or the word itself."""
    products = (op for op in uses.place[one.op].block.ops if "dot" in op.row.traits)
    return "a product" if any(op.site == one.op.site for op in products) else "a tcgen05_commit"


def _too_few(array: BarrierArray, wait: BarrierAccess, arrivals: list[BarrierAccess]) -> None:
    if array.pipe is not None:
        _too_few_of_pipe(array, wait, arrivals)
    come = sum(one.count for one in arrivals)
    who = ", ".join(f"task '{task_label(one.task)}': {_what(one)} at {one.op.site}" for one in arrivals)
    waiting = f"The wait of task '{task_label(wait.task)}' at {wait.op.site} never returns."
    facts = f"{come} can come ({who})" if arrivals else "nothing ever arrives there"
    hint = f"Allocate with arrive_count={come}, or add the other arrive." if arrivals else _missing(array)
    hint = _PER_THREAD if arrivals and array.root.type.per_thread else hint
    raise TooFewArrivals(f"{array} waits for {_arrivals(array.arrive_count)}, {facts}. {waiting}",
                         array.op.site, wait.op.site, *(one.op.site for one in arrivals), hint=hint)


def _missing(array: BarrierArray) -> str:
    """The mend of barriers on which nothing arrives: copies that land there bring bytes, and no arrival."""
    copies = array.of_kind("complete")
    if not copies:
        return "Add the barrier_arrive or barrier_expect_bytes that completes it."
    at = {(one.op.site.file, one.op.site.line): one.bytes for one in copies}        # copies of one line are of several phases
    first, size = copies[0].op.site, "..." if None in at.values() else sum(at.values())
    barrier = as_written(first, array.root.name).strip("`")
    return (f"Announce the bytes before {first}: `barrier_expect_bytes({barrier}, {size})` is the arrival; the "
            f"{copies[0].op.name} there brings only bytes.")


def _too_few_of_pipe(array: BarrierArray, wait: BarrierAccess, arrivals: list[BarrierAccess]) -> None:
    pipe, awaits = array.pipe, array.pipe.verb(wait.op)
    if awaits == "wait":
        facts, mend = f"no writer commits a chunk to {pipe.pipe}", "call commit(k) behind acquire(k) in the writer."
    else:
        facts = f"{len(arrivals)} of the {array.arrive_count} readers of {pipe.pipe} release the slot" if arrivals else \
            f"no reader of {pipe.pipe} releases a slot"
        mend = "let every reader call release(k) for each chunk k, behind its last use of the slot."
    raise TooFewArrivals(f"{facts}. The {awaits} of task '{task_label(wait.task)}' at {wait.op.site} never returns.",
                         array.op.site, wait.op.site, *(one.op.site for one in arrivals), hint=mend)


def _what(one: BarrierAccess) -> str:
    each = one.count // one.times
    named = {"expect": "one expect", "commit": "one commit of tensor-core work"}
    what = named.get(one.kind) or ("one arrive" if each == 1 else f"one arrive of {each}")
    return what if one.times == 1 else f"{what} from each of {one.times} CTAs"


def _arrivals(count: int) -> str:
    return f"{count} arrival" + ("s" if count != 1 else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
