"""Emissions through Triton's own builder, which knows how each chip does them; the stem of a file is that of the words.

Input: an op. Output: ops of Triton, and where a chip does part of a word by assembly, a call of that chip's folder:

    barrier_wait %full, 0        ttng.wait_barrier;  with a limit to how long a thread sleeps, `hopper.mbarrier.wait`
"""

from . import (  # noqa: F401
    aliases,
    barriers,
    buffer_words,
    control,
    copies,
    descriptors,
    layouts,
    local_mem,
    matrix_registers,
    pointers,
    raw_mlir,
    rows,
    scheduling,
    tasks,
    tiles,
    views,
    warp_stages,
    world,
)
