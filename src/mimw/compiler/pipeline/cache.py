"""The package's part in the caches of compiled kernels: its version in the key, and the warnings beside a binary.

    compiler_hash()         a new release of this package meets no binary of an old one
    keep_warnings(source, compiled)     a kernel that was found compiled warns as its compile did

Input: a source and what Triton compiled of it. Output: a part of a key, or warnings; an `OSError` about files
that Triton cannot write becomes a `CacheError` (`unkept`), one about the assembler an `AssemblerMissing` (`not_run`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import asdict
from errno import EACCES, EDQUOT, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path

from ...errors import AssemblerMissing, CacheError
from ...ir import LineWarning
from ..triton_port.runtime import keep_beside, kept_beside, knobs
from .source_protocol import KernelSource

_WARNED = "mimw_warned.json"
_ASSEMBLERS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
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
    """Keep the warnings about the lines of a kernel that was compiled now, and repeat those of a kernel that was compiled
    before."""
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
    """`error` in the user's words, if it is about files that Triton writes; a folder where none can be made is reported as
    missing."""
    if _is_an_assembler(error.filename):
        return None
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


def not_run(error: OSError | RuntimeError) -> AssemblerMissing | None:
    """`error` in the user's words, if it is about the assembler, or the linker, that makes the binary: it cannot be run."""
    if isinstance(error, OSError) and _is_an_assembler(error.filename):
        refusal = AssemblerMissing(f"AssemblerMissing: {error.filename}, which makes the binary, cannot be run: {error.strerror}\n"
                                   f"Mend: make it executable by `chmod +x`, or unset {' and '.join(_ASSEMBLERS)} for the one that "
                                   "comes with Triton")
        refusal.errno = error.errno
        return refusal
    if isinstance(error, RuntimeError) and str(error).startswith("Cannot find ptxas"):
        return AssemblerMissing(f"AssemblerMissing: {error}, which makes the binary\nMend: install Triton anew, whose wheel has "
                                f"it, or name one by {' or '.join(_ASSEMBLERS)}")
    return None


def _is_an_assembler(path: str | bytes | None) -> bool:
    name = Path(str(path)).name
    return path is not None and (name.startswith(("ptxas", "ld.lld")) or str(path) in map(os.environ.get, _ASSEMBLERS))
