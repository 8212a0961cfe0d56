"""Resource use of a kernel, as ptxas notes it in a cubin: registers a thread, and bytes of local memory, which are spills.

Input: a cubin, an ELF64 file. Output: two numbers. For example:

    resources(compiled.asm["cubin"])        (168, 0)

Triton's kernels have no arrays in local memory, so a stack frame holds what found no register. The section .nv.info has a list of
attributes, each a format, a number and a size or value; 0x2f counts a function's registers, 0x11 the bytes of its frame.
"""

from __future__ import annotations

import struct

_SECTION = "<IIQQQQIIQQ"    # of a header of ELF64: name, type, flags, address, offset, size, link, info, alignment, entry size
_REGISTERS, _FRAME = 0x2f, 0x11
_WITH_BYTES = 4             # the format of an attribute that is followed by bytes


def resources(cubin: bytes) -> tuple[int, int]:
    """(registers a thread at launch, bytes of local memory a thread): the most of any function of the file."""
    found = {_REGISTERS: 0, _FRAME: 0}
    data, at = _info(cubin), 0
    while at < len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind == _WITH_BYTES:
            if attribute in found:
                found[attribute] = max(found[attribute], struct.unpack_from("<II", data, at)[1])
            at += size
    return found[_REGISTERS], found[_FRAME]


def _info(cubin: bytes) -> bytes:
    """The section .nv.info."""
    (table, ), (size, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<HHH", cubin, 0x3a)
    sections = [struct.unpack_from(_SECTION, cubin, table + index * size) for index in range(count)]
    for name, _, _, _, offset, length, *_ in sections:
        if cubin[sections[names][4] + name:].startswith(b".nv.info\0"):
            return cubin[offset:offset + length]
    return b""
