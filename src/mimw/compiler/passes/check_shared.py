"""The buffers and barriers of one CTA must fit into its shared memory.

Input: a program and its target. Output: nothing, or `OutOfSharedMemory` with the sum, an array a line, and the number
of stages that would fit:

    tiles  4 x 65536 = 262144 bytes  kernel.py:7       a CTA on sm_90a has 232448: 29696 too many

Bytes count that are needed at one time, without padding: the least that any placement takes. A kernel that passes may
still be too large once alignment and the scratch of Triton's ops are added: `check_scratch` sees those, when the
layouts are known.
"""

from __future__ import annotations

from ...errors import OutOfSharedMemory
from ...ir import Program
from ...target import Target
from ..analysis import COUNTERS, Uses, counter_bytes, uses_of
from ..storage import SharedEntry, shared_plan, storage_lines


def check_shared(program: Program, target: Target) -> None:
    """Raise `OutOfSharedMemory` if the allocations that are needed together exceed `target.shared_bytes`."""
    uses = uses_of(program)
    entries = shared_plan(program, uses).at_peak
    counters = counter_bytes(program, target)
    total = sum(entry.bytes for entry in entries) + counters
    if total <= target.shared_bytes:
        return
    lines = _lines(entries, counters, total, target) + _maps(entries, uses)
    raise OutOfSharedMemory(
        f"{total} bytes of shared memory are needed together, but a CTA on {target} has {target.shared_bytes}: "
        f"{total - target.shared_bytes} too many.\n" + "\n".join(lines),
        *(entry.site for entry in sorted(entries, key=lambda entry: -entry.bytes)[:1]),
        hint=fewer_buffers(entries, total - target.shared_bytes) or "use smaller tiles, or fewer stages of several arrays at once.",
        required=total, limit=target.shared_bytes)


def _lines(entries: tuple[SharedEntry, ...], counters: int, total: int, target: Target) -> list[str]:
    rows = [(entry.name, f"{entry.count} x {entry.tile_bytes}", str(entry.bytes), str(entry.site)) for entry in entries]
    rows += [(COUNTERS, "", str(counters), "")] * bool(counters)
    rows += [("sum", "", str(total), ""), ("limit", "", str(target.shared_bytes), str(target)),
             ("excess", "", str(total - target.shared_bytes), "")]
    name, count, size = (max(len(row[column]) for row in rows) for column in range(3))
    return [f"    {row[0]:<{name}}  {row[1]:>{count}} {'=' if row[1] else ' '} {row[2]:>{size}} bytes  {row[3]}".rstrip()
            for row in rows]


def _maps(entries: tuple[SharedEntry, ...], uses: Uses) -> list[str]:
    """A map of each storage that buffers share, in lines of text."""
    lines = []
    for entry in entries:
        members = [use.op for use in uses.of(entry.value) if use.op.row.allocates == "buffer"]
        if members:
            places = {alloc.result: alloc.attrs["place"] for alloc in members}
            lines += [f"    {entry.name} is shared by", storage_lines(members, places, entry.bytes)]
    return lines


def fewer_buffers(entries: tuple[SharedEntry, ...], excess: int) -> str:
    """The mend by fewer stages: of one array alone, else of all with the same number of tiles, which belong to one pipeline. Empty
    if that does not save `excess` bytes."""
    arrays = [entry for entry in entries if entry.kind == "buffer" and entry.count > 1]
    for array in sorted(arrays, key=lambda entry: entry.tile_bytes):
        fits = array.count - -(-excess // array.tile_bytes)
        if fits >= 1 and _alone(array, arrays):
            return f"allocate {fits} instead of {array.count} buffers of '{array.name}'."
    for count in sorted({entry.count for entry in arrays}, reverse=True):
        together = [entry for entry in arrays if entry.count == count]
        fits = count - -(-excess // sum(entry.tile_bytes for entry in together))
        if fits >= 1:
            names = " and ".join(f"'{entry.name}'" for entry in together)
            return f"{fits} stages instead of {count} for {names} fit."
    return ""


def _alone(array: SharedEntry, arrays: list[SharedEntry]) -> bool:
    return sum(other.count == array.count for other in arrays) == 1
