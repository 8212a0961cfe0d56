"""The machine code of many binaries by one run of the disassembler, which takes 0.4 s to start and hardly anything for a kernel.

Input: cubins for one chip, and the disassembler. Output: the instructions of each, a line each, as `Code.read` takes them:

    disassembled([made.stages["cubin"]], "sm_90a", nvdisasm)        ["/*0000*/ LDC R1, c[0x0][0x28] ;\\n/*0010*/ EXIT ;"]

Addresses, as branches name them, count through all of the binaries.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

_SECTION = "<IIQQQQIIQQ"    # of a header of ELF64: name, type, flags, address, offset, size, link, info, alignment, entry size


def disassembled(cubins: list[bytes], chip: str, nvdisasm: str) -> list[str]:
    """The instructions of each cubin, a line each, with addresses. Raises CalledProcessError if the disassembler takes them not."""
    codes = [b"".join(_code(cubin)) for cubin in cubins]
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "code"
        raw.write_bytes(b"".join(codes))
        printed = subprocess.run([nvdisasm, "--binary", chip.replace("sm_", "SM"), str(raw)], capture_output=True, text=True,
                                 check=True).stdout
    found = re.findall(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?;)", printed, re.MULTILINE)
    places, lines = [int(at, 16) for at, _ in found], [f"/*{at}*/ {line}" for at, line in found]
    ends = list(accumulate(map(len, codes)))
    return ["\n".join(lines[bisect_left(places, begin):bisect_left(places, end)]) for begin, end in zip([0, *ends], ends)]


def _code(cubin: bytes) -> Iterator[bytes]:
    """The contents of the sections of an ELF64 file that hold code."""
    (table, ), (size, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<HHH", cubin, 0x3a)
    sections = [struct.unpack_from(_SECTION, cubin, table + index * size) for index in range(count)]
    for name, _, _, _, offset, length, *_ in sections:
        if cubin[sections[names][4] + name:].startswith(b".text."):
            yield cubin[offset:offset + length]
