"""Barriers that expect another number of bytes than their copies bring.

Input: a program. Output: nothing, or `BytesNeverSent` or `BytesNotExpected` with the sums and the lines. For example:

    barrier_expect_bytes(full, 8192); async_descriptor_load(desc, tile, .., full)      refused for a block of 16384 bytes

A TMA load brings its whole block, parts outside of the tensor included; a barrier that expects fewer or more bytes
never completes the phase. In a cluster, copies of other CTAs count where they land. The check speaks only where it is
certain: every expect and every copy on the array stands in one straight line, or one of the two kinds is missing in the
whole kernel.
"""

from __future__ import annotations

from ...errors import BytesNeverSent, BytesNotExpected
from ...ir import Program
from ...target import Target
from ..analysis import BarrierAccess, BarrierArray, Uses, barriers_of_each_cta, constant_of, task_label, uses_of

_BLOCK = "a TMA load always brings its whole block"
_ANSWER = "the answer to a request for the work of another cluster has 16"
_WHOLE = "a barrier gets what every CTA of the cluster sends to it"


def check_bytes(program: Program, target: Target) -> None:
    """Raise `BytesNeverSent` or `BytesNotExpected` for the first array whose expected bytes certainly differ from those copied."""
    uses = uses_of(program)
    for array in barriers_of_each_cta(program, uses):
        if array.escapes or not array.of_kind("wait"):
            continue
        traffic = _certain(uses, array)
        if traffic is None:
            continue
        for group in _groups(uses, traffic):
            expected = sum(one.bytes for one in group if one.kind != "complete")
            copied = sum(one.bytes for one in group if one.kind == "complete")
            if expected != copied and (_in_one_line(uses, traffic) or 0 in (expected, copied)):
                _refuse(array, group, expected, copied)


def _certain(uses: Uses, array: BarrierArray) -> list[BarrierAccess] | None:
    """Every expect and copy on the array, or None if one of them is of unknown size or may be skipped."""
    traffic = []
    for one in array.of_kind("expect", "announce", "complete"):
        taken = 1 if one.predicate is None else constant_of(uses, one.predicate)
        if taken is None or one.bytes is None:
            return None
        if taken:
            traffic.append(one)
    return traffic


def _groups(uses: Uses, traffic: list[BarrierAccess]) -> list[list[BarrierAccess]]:
    """The accesses by barrier where every index is a number, else all together: a ring may be filled a round ahead of its
    expect."""
    numbers = [constant_of(uses, one.index) for one in traffic]
    if None in numbers:
        return [traffic]
    return [[one for one, other in zip(traffic, numbers) if other == number] for number in sorted(set(numbers))]


def _in_one_line(uses: Uses, traffic: list[BarrierAccess]) -> bool:
    return len({id(uses.place[one.op].block) for one in traffic}) == 1


def _refuse(array: BarrierArray, group: list[BarrierAccess], expected: int, copied: int) -> None:
    expects = [one for one in group if one.kind != "complete"]
    copies = [one for one in group if one.kind == "complete"]
    first = (expects or copies)[0]
    if array.pipe is not None:
        raise (BytesNeverSent if expected > copied else BytesNotExpected)(
            f"task '{task_label(first.task)}' commits {_sum(expects)} to {array.pipe.pipe}, and {_sum(copies)} are copied there. "
            "The chunk is never complete.", *dict.fromkeys(one.op.site for one in (*expects, *copies)), array.op.site,
            hint="put every tle.gpu.copy into a slot between the acquire and the commit of its chunk.")
    sums = f"{_sum(expects)} are expected, {_sum(copies)} are copied"
    raise (BytesNeverSent if expected > copied else BytesNotExpected)(
        f"task '{task_label(first.task)}' expects another number of bytes on {array} than is copied there: {sums}. "
        "The phase never completes.", *(one.op.site for one in (*expects, *copies)), array.op.site,
        hint=f"expect {copied} bytes: {_why(copies)}." if copied else
        "start the copy on this barrier, or arrive with barrier_arrive, which expects no bytes.")


def _why(copies: list[BarrierAccess]) -> str:
    """The reason for which the copies bring their number of bytes."""
    if any("steals" in one.op.row.traits for one in copies):
        return _ANSWER
    return _WHOLE if any(one.times > 1 for one in copies) else _BLOCK


def _sum(group: list[BarrierAccess]) -> str:
    if len(group) == 1 and group[0].times > 1:
        return f"{group[0].bytes // group[0].times} bytes from each of {group[0].times} CTAs"
    parts = [str(one.bytes) if one.times == 1 else f"{one.times} x {one.bytes // one.times}" for one in group]
    return f"{' + '.join(parts)} = {sum(one.bytes for one in group)} bytes" if len(parts) > 1 else f"{(parts or ['0'])[0]} bytes"
