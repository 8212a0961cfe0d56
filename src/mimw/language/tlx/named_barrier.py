"""The 16 barriers of a CTA that are named by number: without memory of the author's or phases, for a fixed number of threads.

Input: the arguments of a kernel's call. Output: an op of the word's own name. For example:

    tlx.named_barrier_wait(9, 256)      named_barrier_wait barrier=9, threads=256
"""

from __future__ import annotations

import triton.language.core as tl

from ...target import NVIDIA_WARP
from ..core import word
from ..refuse import refuse
from .arguments import is_int, needs_gpu

__all__ = ["named_barrier_arrive", "named_barrier_wait"]

LAST, WARP, MOST_THREADS = 15, NVIDIA_WARP, 1024


@word
def named_barrier_wait(bar: tl.constexpr, arrive_count: tl.constexpr, _semantic=None) -> None:
    """Arrive at barrier `bar` with all threads of this task, and stay until it opens.

    args:      bar          - its number, 0 to 15. On NVIDIA the compiler takes 0, and in a kernel with tasks 1 and one for each
                              task besides the default one from 2 on: use 8 and above
               arrive_count - threads that open it, those that arrive and those that wait together; a multiple of 32. Each warp
                              counts 32 when it comes, a wave of AMD's also, whatever its lanes: a task of more warps than fit
                              opens it several times
    orders:    shared memory: what each thread that came did before -> what those that waited do after
    errors:    ValueError for other numbers; ProtocolError on AMD for one number with several counts; NotImplementedError on chips
               that are no GPUs
    lowers to: PTX barrier.sync; on AMD a counter in LDS, to which each wave adds one behind a wait for its own accesses
    example:   tlx.named_barrier_wait(9, 256)     # two tasks of four warps each
    """
    _record("named_barrier_wait", bar, arrive_count, _semantic)


@word
def named_barrier_arrive(bar: tl.constexpr, arrive_count: tl.constexpr, _semantic=None) -> None:
    """Arrive at barrier `bar` with all threads of this task, and go on. Arguments as of `named_barrier_wait`.

    orders:    shared memory: what this task did before -> what those that wait there do after
    errors:    ValueError and NotImplementedError as for `named_barrier_wait`
    lowers to: PTX barrier.arrive; on AMD a counter in LDS
    example:   tlx.named_barrier_arrive(9, 256)
    """
    _record("named_barrier_arrive", bar, arrive_count, _semantic)


def _record(name: str, bar, arrive_count, semantic) -> None:
    needs_gpu(name, semantic)
    if not is_int(bar) or not 0 <= bar <= LAST:
        refuse(ValueError, f"{name}: bar must be a constexpr int from 0 to {LAST}, got {bar!r}")
    if not is_int(arrive_count) or arrive_count % WARP or not 0 < arrive_count <= MOST_THREADS:
        refuse(ValueError, f"{name}: arrive_count is a number of threads, a constexpr multiple of {WARP} from {WARP} to "
                           f"{MOST_THREADS}, got {arrive_count!r}")
    semantic.builder.record(name, bar, arrive_count)
