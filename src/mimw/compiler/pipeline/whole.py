"""Checks that the files of a compiled kernel are whole: a file from the cache is used only if it has the digest of what was
written.

Input: a way to compile, which may find the kernel in Triton's cache. Output: the compiled kernel, compiled anew where a file was
cut short or is another one than was written:

    compiled = whole(lambda: stock_compile(src, target=target, options=options))

Triton writes each file in one go, but a full disk, a copied cache or an editor may leave half of one, and a text cut short reads
like a whole one. Digests lie beside the files; a kernel that has none, of an older release or another program's, gets one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..triton_port.runtime import about_kept_files, compiling_anew, keep_beside, kept_beside

_DIGESTS = "mimw_digests.json"


def whole(compile: Callable[[], Any]) -> Any:
    """The result of `compile()`, whose files are as they were written."""
    try:
        compiled = compile()
        if _digests(compiled) == (known := _known(compiled)):
            return compiled
        damaged = known is not None
    except Exception as error:
        if not about_kept_files(error):
            raise
        damaged = True
    if damaged:
        with compiling_anew():
            compiled = compile()
    with suppress(OSError):     # a cache that may only be read
        keep_beside(compiled, _DIGESTS, json.dumps(_digests(compiled)))
    return compiled


def _digests(compiled) -> dict[str, str]:
    """Stage -> digest of its text or binary, as it was read from its file."""
    return {stage: hashlib.sha256(made if isinstance(made, bytes) else made.encode()).hexdigest()
            for stage, made in compiled.asm.items()}


def _known(compiled) -> dict[str, str] | None:
    """The digests of what was written; None if there are none; an empty table if the file of digests is damaged."""
    try:
        text = kept_beside(compiled, _DIGESTS)
        return None if text is None else json.loads(text)
    except ValueError:
        return {}


__all__ = ["whole"]
