"""What the caches of compiled kernels know of ours: this package's version as a part of the key, and the warnings beside a binary.

    compiler_hash()         a new release of this package meets no binary of an old one
    keep_warnings(source, compiled)     a kernel that was found compiled warns as its compile did

Input: a source and what Triton compiled of it. Output: a part of a key, or warnings; an `OSError` about files
that Triton cannot write becomes a `CacheError` (`unkept`).
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict
from errno import EACCES, EDQUOT, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path

from ...errors import CacheError
from ...ir import LineWarning
from ..triton_port.runtime import keep_beside, kept_beside, knobs
from .source_protocol import KernelSource

_WARNED = "mimw_warned.json"
_UNWRITABLE = (EACCES, EDQUOT, ENOSPC, ENOTDIR, EPERM, EROFS)


@functools.cache
def compiler_hash() -> str:
    """A hash of this package's own source, so that a new release never meets an old one's cache."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def keep_warnings(src: KernelSource, compiled) -> None:
    """Keep what was said of the lines of a kernel that was compiled now, and say it of one that was compiled before."""
    if src.kernel.warned is not None:
        if src.kernel.warned:
            keep_beside(compiled, _WARNED, json.dumps([src.fn.file_name, *map(asdict, src.kernel.warned)]))
        return
    try:
        file, *told = json.loads(kept_beside(compiled, _WARNED) or "[null]")
        warned = [LineWarning(**one) for one in told]
    except (TypeError, ValueError):
        file, warned = None, [None]     # the file is damaged
    if warned and file != src.fn.file_name:
        src.program()   # the lines are those of another file; recording finds them in this one
        return
    src.kernel.warned = warned
    for one in src.kernel.warned:
        one.repeat()


def unkept(error: OSError) -> CacheError | None:
    """`error` in the user's words, if it is about files that Triton writes; a folder where none can be made is told as missing."""
    path, folder = str(error.filename or "-"), knobs.cache.dir
    no_folder = error.errno == ENOENT and (path.startswith(folder) or folder.startswith(path))
    if error.errno not in _UNWRITABLE and not no_folder:
        return None
    where = f"{error.filename}: " if error.filename else ""
    full = "free space there and in the folder for temporary files (TMPDIR)" if error.errno in (ENOSPC, EDQUOT) else \
        "make it writable"
    refusal = CacheError(f"the compiled kernel cannot be kept in {knobs.cache.dir}: {where}{error.strerror}; "
                         f"{full}, or name another folder by TRITON_CACHE_DIR")
    refusal.errno = error.errno
    return refusal
