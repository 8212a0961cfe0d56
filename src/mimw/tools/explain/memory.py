"""The section of `mimw explain` on shared memory: which bytes hold what, as Triton's allocator decided, and for how long.

Input: a compiled kernel. Output: text, one line for each allocation of the author's and each place of scratch:

    memory_text(compiled)
        0 .. 32768  tile                         buffer   32768 bytes  |....######|
    32768 .. 36864  convert_layout of masked.py:9  scratch   4096 bytes  |##########|
"""

from __future__ import annotations

from typing import Any

HEADING = "Shared memory"


def memory_text(compiled: Any) -> str:
    """The storage map of a compiled kernel, with what Triton takes for itself as `scratch`: when that is needed is not told,
    so it is drawn over all ops."""
    from ...compiler.storage import storage_map
    from ...runtime.places import places

    last = sum(1 for _ in compiled.program.walk()) - 1
    rows = places(compiled)
    lives = [(row.entry.first, row.entry.last) if row.entry else (0, last) for row in rows]
    return storage_map((row.name, row.start, row.size, *life, row.kind) for row, life in zip(rows, lives))
