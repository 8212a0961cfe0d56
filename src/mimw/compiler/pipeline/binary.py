"""Resources of a finished kernel: registers and bytes of stack of each thread. They are read from the binary and need no GPU.

Input: a binary, or the assembly text of an AMD kernel. Output: `Taken`. For example:

    taken_by_cubin(compiled.stages["cubin"])        Taken(registers=168, stack_bytes=0)
    taken_by_amdgcn(compiled.stages["amdgcn"])      Taken(registers=36, stack_bytes=0, spilled=0)
    taken_by_hsaco(compiled.stages["hsaco"])        the same, of the binary
    kept_by_amdgcn(compiled.stages["amdgcn"])       16: bytes of LDS ahead of those that a launch asks for

Sources: a cubin is an ELF file of 64 bits, whose section `.nv.info` is a list of (format, attribute, size, value); `cuobjdump
-res-usage` prints the two that are read here. LLVM's "User Guide for AMDGPU Backend", code object metadata, has AMD's.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_SIZED, _REGISTERS, _FRAME = 4, 0x2f, 0x11      # EIFMT_SVAL, EIATTR_REGCOUNT, EIATTR_FRAME_SIZE


@dataclass(frozen=True)
class Taken:
    """`registers` of 32 bits a thread has at launch (on AMD a lane's vector registers); `stack_bytes` of it in local memory, where
    spilled registers and arrays lie; on AMD `spilled`, the vector registers that were (a cubin does not say)."""

    registers: int
    stack_bytes: int
    spilled: int | None = None


def taken_by_cubin(cubin: bytes) -> Taken:
    """The resources of a cubin with one kernel."""
    values = {_REGISTERS: 0, _FRAME: 0}
    info, at = _section(cubin, b".nv.info"), 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == _SIZED and attribute in values and size >= 8:        # (number of the function's symbol, value)
            values[attribute] = max(values[attribute], struct.unpack_from("<I", info, at + 8)[0])
        at += 4 + (size if form == _SIZED else 0)
    return Taken(values[_REGISTERS], values[_FRAME])


def _section(elf: bytes, wanted: bytes) -> bytes:
    """The bytes of a section of an ELF file of 64 bits, little endian; empty if there is none of that name."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    # name, type, flags, address, offset, size
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + number * size) for number in range(count)]
    text = headers[names][4]
    for name, _, _, _, start, length in headers:
        if elf[text + name:elf.index(b"\0", text + name)] == wanted:
            return elf[start:start + length]
    return b""


def taken_by_amdgcn(assembly: str) -> Taken:
    """The resources of the assembly text of one kernel."""
    return Taken(*(_number(assembly, key) for key in ("vgpr_count", "private_segment_fixed_size", "vgpr_spill_count")))


def taken_by_hsaco(binary: bytes) -> Taken:
    """The resources of a binary of AMD with one kernel, whose notes are a map in MessagePack."""
    return Taken(*(_noted(binary, key) for key in (b".vgpr_count", b".private_segment_fixed_size", b".vgpr_spill_count")))


def _noted(binary: bytes, key: bytes) -> int:
    """The whole number behind a key of the notes: one byte below 128, or a byte that says how many follow."""
    at = binary.find(key)
    if at < 0:
        return 0
    at += len(key)
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(binary[at])
    return binary[at] if size is None else int.from_bytes(binary[at + 1:at + 1 + size], "big")


def kept_by_amdgcn(assembly: str) -> int:
    """The bytes of LDS that variables of a kernel take, ahead of the memory that a launch asks for; that begins at a multiple of
    16."""
    return -(-_number(assembly, "group_segment_fixed_size") // 16) * 16


def _number(assembly: str, key: str) -> int:
    found = re.search(rf"^\s*\.{key}:\s*(\d+)", assembly, re.MULTILINE)
    return int(found[1]) if found else 0
