"""The buffers of each memory space of a chip must fit into it.

Input: a program and its target. Output: nothing, or `OutOfLocalMemory` with the map of the space: who lies where, for how long:

    262144 bytes of the unified buffer (UB) are needed together, but a vector core of ascend_910b has 196608: 65536 too many.
         0 .. 131072  a  buffer  131072 bytes  |####....|
    131072 .. 262144  b  buffer  131072 bytes  |..######|

Bytes count that are needed at one time, each buffer at the space's alignment. Tiles that the kernel computes have no place here:
the chip's compiler lays them in what is left. Shared memory of GPUs is `check_shared`'s, where buffers of `tle.dsa` lie there.
"""

from __future__ import annotations

from ...errors import OutOfLocalMemory
from ...ir import Program
from ...target import GLOBAL, Target
from ..storage import SpaceUse, use_of


def check_spaces(program: Program, target: Target) -> None:
    """Raise `OutOfLocalMemory` for the first space of a chip with own spaces whose buffers, as far as they are needed
    together, do not fit."""
    for name, space in {} if target.binary else target.spaces.items():
        use = None if name == GLOBAL else use_of(program, space)
        if use is not None and use.peak > space.bytes:
            largest = max(use.at_peak, key=use.size)
            raise OutOfLocalMemory(
                f"{use.peak} bytes of {space.title} are needed together, but a {space.unit} of {target} has {space.bytes}: "
                f"{use.peak - space.bytes} too many.\n" + "".join(f"    {line}\n" for line in use.map().splitlines()).rstrip(),
                largest.site, hint=_mend(use), required=use.peak, limit=space.bytes)


def _mend(use: SpaceUse) -> str:
    """The mend: the factor by which blocks must shrink, and the buffers with several slots."""
    part = -(-use.peak // use.space.bytes)
    slots = [entry for entry in use.at_peak if entry.count > 1]
    fewer = ", or fewer stages: " + ", ".join(f"{entry.name!r} has {entry.count} slots" for entry in slots) if slots else ""
    return (f"blocks of a {'half' if part == 2 else f'{part}th'} of the size fit{fewer}. Buffers whose lifetimes do not overlap "
            "share bytes: allocate late, and read for the last time early.")
