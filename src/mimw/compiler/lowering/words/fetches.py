"""The barrier of a TMA copy that is there when its op is over, or of a run of such copies.

Input: the bytes that come. Output: a barrier of the call's own; then the wait for it. For example:

    tma_fetch %descriptor (%row, %column) %tile        init, expect 8192 bytes; the copy; wait; inval
"""

from __future__ import annotations

from ..emitter import Emitter


def begin(emitter: Emitter, size: int, always):
    """A barrier that waits for so many bytes; with 0 bytes, that of the run of fetches under way. `always` is a true i1."""
    builder = emitter.builder
    if size:
        emitter.fetching = builder.create_local_alloc(emitter.types.barrier(0))
        builder.create_mbarrier_init(emitter.fetching, 1)
        builder.create_mbarrier_expect(emitter.fetching, size, always)
    return emitter.fetching


def end(emitter: Emitter, always) -> None:
    """The wait for the barrier, which is gone then."""
    builder = emitter.builder
    builder.create_mbarrier_wait(emitter.fetching, builder.get_int32(0), always, [])
    builder.create_mbarrier_inval(emitter.fetching)
    builder.create_local_dealloc(emitter.fetching)
