"""What the caches of compiled kernels know of ours: the parts of the key that Triton's lack, and the warnings beside a binary.

    compiler_hash()         a new release of this package meets no binary of an old one
    globals_key(fn)         the globals of ours that a kernel names, by content
    keep_warnings(source, compiled)     a kernel that was found compiled warns as its compile did

Input: a JIT function, or a source and what Triton compiled of it. Output: parts of a key, or warnings; an `OSError` about files
that Triton cannot write becomes a `CacheError` (`unkept`).
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict
from errno import EACCES, EDQUOT, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..errors import CacheError, GlobalChanged
from ..frontend.words import RawFunction, named_values
from ..ir import LineWarning
from ..triton_port.runtime import content_key, keep_beside, kept_beside, knobs

if TYPE_CHECKING:
    from .source import MimwSource

_NATIVE: WeakKeyDictionary = WeakKeyDictionary()      # of each JIT function, the native code that it names
_WARNED = "mimw_warned.json"
_UNWRITABLE = (EACCES, EDQUOT, ENOSPC, ENOTDIR, EPERM, EROFS)


@functools.cache
def compiler_hash() -> str:
    """A hash of this package's own source, so that a new release never meets an old one's cache."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def globals_key(fn) -> str:
    """What of ours `fn` and its helpers name as globals: Triton's key of a function holds only those in a `tl.constexpr`."""
    fn.cache_key  # noqa: B018  finds them
    ours = (f"{name}={key}" for (name, _), (value, _) in fn.used_global_vals.items() if (key := content_key(value)))
    return "".join((*ours, native_key(fn)))


def native_key(fn) -> str:
    """The native code that `fn` and its helpers name, by the content of its sources now; "" for a kernel without any."""
    found = _NATIVE.get(fn)
    if found is None:
        found = _NATIVE[fn] = [value for value in named_values(fn) if isinstance(value, RawFunction)]
    return "".join(f"{function.name}={function.cache_key}" for function in found)


def check_globals(fn) -> None:
    """Refuse a kernel whose globals have changed since its first compilation: every cache still holds the old values.

    Triton's own launch asks the same; a simulated launch and a `warmup` without a GPU do not go through it.
    """
    missing = object()
    fn.cache_key  # noqa: B018  finds them; those of a helper are as they were when the helper was first compiled
    for (name, _), (value, scope) in fn.used_global_vals.items():
        now = scope.get(name, missing)
        if now is missing or _differs(now, value):
            shown = "no longer defined" if now is missing else f"{_shown(now)} now"
            raise GlobalChanged(f"{fn.__name__} was first compiled with the global {name} = {_shown(value)}, which is {shown}",
                                hint=f"give what changes to the kernel as a parameter `{name}: tl.constexpr`")


def _differs(now, value) -> bool:
    """Arrays do not say whether they are equal; no kernel can use one, so a name of the kernel's own is meant."""
    try:
        return bool(now != value)
    except (TypeError, ValueError, RuntimeError):
        return False


def _shown(value) -> str:
    return str(getattr(value, "value", value))


def keep_warnings(src: MimwSource, compiled) -> None:
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
