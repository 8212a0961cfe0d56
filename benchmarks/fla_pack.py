"""Binaries of Triton's cache as one small file.

    pack(Path("fla-cache"), keys, Path("/tmp/fla-cache"), Path("fla.txz"))      9,700,000 bytes
    tar xJf fla.txz -C /tmp                                                     /tmp/fla-cache/KEY/... for each of the keys

Input: a folder of Triton's cache, the names of folders in it, and where the cache will be. Output: a tar.xz. Of a kernel it has
the binary, its metadata and the group file, which Triton reads first: that names the files of a kernel by their whole paths, and a
kernel of which one is missing is compiled again. So here it names these two files, where they will be; texts of earlier stages
stay behind. Three quarters of a binary is its PTX and tables of lines, for debuggers and profilers: these bytes are 0, and all else
is where it was. Kernels of one name lie side by side, the smaller first, since a file alike shortens the next one.
"""

from __future__ import annotations

import io
import json
import lzma
import struct
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

GROUP, KEPT = "__grp__", (".cubin", ".json")
# all of a pack, up to 256 MiB, is looked through for what is alike; instructions begin at multiples of 16 bytes
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 256 << 20, "lc": 1, "lp": 3, "pb": 3}]
FOR_DEBUGGERS = (b".nv_debug_ptx_txt", b".nv_debug_line_sass", b".debug_line")


def pack(cache: Path, keys: Iterable[str], at: Path, file: Path, whole: bool = False) -> int:
    """Write the file, its binaries `whole` or without what debuggers read; its size in bytes."""
    folders = sorted((cache / key for key in keys), key=_likeness)
    with lzma.open(file, "wb", filters=FILTERS) as written, tarfile.open(fileobj=written, mode="w") as tar:
        for name, data in (one for folder in folders for one in _files(folder, at, whole)):
            entry = tarfile.TarInfo(f"{at.name}/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return file.stat().st_size


def without_debugging(binary: bytes) -> bytes:
    """A 64-bit ELF file with nothing but zeros in the sections that only debuggers and profilers read."""
    made = bytearray(binary)
    table, = struct.unpack_from("<Q", made, 40)
    count, of_names = struct.unpack_from("<HH", made, 60)
    sections = [struct.unpack_from("<I20xQQ", made, table + 64 * number) for number in range(count)]       # name, offset, size
    names = sections[of_names][1]
    for name, offset, size in sections:
        if made[names + name:made.index(0, names + name)] in FOR_DEBUGGERS:
            made[offset:offset + size] = bytes(size)
    return bytes(made)


def _likeness(folder: Path) -> tuple[str, int]:
    binary, = folder.glob("*.cubin")
    return binary.name, binary.stat().st_size


def _files(folder: Path, at: Path, whole: bool) -> Iterator[tuple[str, bytes]]:
    """The names and contents of a kernel's files."""
    group, = folder.glob(f"{GROUP}*")
    names = [name for name in json.loads(group.read_text())["child_paths"] if name.endswith(KEPT)]
    for name in names:
        data = (folder / name).read_bytes()
        yield f"{folder.name}/{name}", data if whole or name.endswith(".json") else without_debugging(data)
    paths = {name: str(at / folder.name / name) for name in names}
    yield f"{folder.name}/{group.name}", json.dumps({"child_paths": paths}).encode()
