"""A race names both accesses (task, CTA, line, bytes), the order that is missing, and the least change that adds it: in shared
memory, in that of another CTA, and in global memory."""

import inspect

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

PAIR = dict(ctas_per_cga=(2, 1, 1))


@mimw.jit
def in_shared(x_ptr, y_ptr, BARRIER: tl.constexpr):
    tile = tlx.local_alloc((128, ), tl.float32, 2)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if BARRIER:
                tlx.barrier_wait(full[0], 0)                                         # wait
            tl.store(y_ptr + tl.arange(0, 64), tlx.local_load(tlx.local_slice(tile[1], [64], [64])))     # read
        with tlx.async_task(num_warps=4):
            if BARRIER:
                tlx.barrier_arrive(full[0])                                          # arrive
            tlx.local_store(tile[1], tl.load(x_ptr + tl.arange(0, 128)))             # write


@mimw.jit
def in_another_cta(x_ptr, y_ptr, BARRIER: tl.constexpr):
    tile = tlx.local_alloc((128, ), tl.float32, 2)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    if tlx.cluster_cta_rank() == 0:
        if BARRIER:
            tlx.barrier_arrive(full[0], 1, remote_cta_rank=1)                        # arrive
        tlx.remote_shmem_store(tile[1], tl.load(x_ptr + at), 1)                      # write
    else:
        if BARRIER:
            tlx.barrier_wait(full[0], 0)                                             # wait
        tlx.local_store(tile[1], tl.load(x_ptr + at))                                # other write


@mimw.jit
def in_global(x_ptr, y_ptr, TASKS: tl.constexpr):
    if TASKS:
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tl.store(x_ptr + tl.arange(0, 128), 1.0)                             # write
            with tlx.async_task(num_warps=4):
                tl.store(y_ptr + tl.arange(0, 64), tl.load(x_ptr + 32 + tl.arange(0, 64)))       # read
    else:
        tl.store(x_ptr + tl.program_id(0) * 64 + tl.arange(0, 128), 1.0)             # each
        tlx.clock64()


def found(kernel, grid, *args, **meta):
    (finding, ) = mimw.check(kernel, grid, np.ones(256, np.float32), np.ones(256, np.float32), *args, search="both", limit=20,
                             **meta).findings
    return finding


def at(kernel, mark: str) -> str:
    """The position of a marked line as messages write it."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (number, ) = [number for number, line in enumerate(lines) if line.rstrip().endswith("# " + mark)]
    return f"{kernel.fn.__code__.co_filename}:{first + number}"


def says(finding, *texts) -> None:
    text = str(finding)
    assert all(part in text for part in texts), text


@pytest.mark.parametrize("barrier", [False, True])
def test_shared_memory(barrier):
    """In some runs the reader finds nothing written yet; the report is of the race that explains it."""
    finding = found(in_shared, 1, barrier)
    assert finding.kind == "DataRace"
    says(finding, "'tile'[1][64:128], bytes 768 to 1023: two accesses",
         f"task 'task 1' of CTA (0, 0, 0): local_store at {at(in_shared, 'write')} writes 'tile'[1], bytes 512 to 1023 of its "
         "memory (generic proxy)",
         f"task 'default' of CTA (0, 0, 0): local_load at {at(in_shared, 'read')} reads 'tile'[1][64:128], bytes 768 to 1023 "
         "of its memory (generic proxy)")
    if barrier:
        says(finding, "the second task waits for 'full', but not for an arrival of the first task after its access",
             f"Mend: the arrive at {at(in_shared, 'arrive')} must come "
             f"after {at(in_shared, 'write')}, and the wait at {at(in_shared, 'wait')} before {at(in_shared, 'read')}")
    else:
        says(finding, "no barrier leads from 'task 1' to 'default' of CTA (0, 0, 0)", "Mend: let 'task 1' arrive on a barrier "
             f"after {at(in_shared, 'write')} and 'default' wait for it before {at(in_shared, 'read')}")


@pytest.mark.parametrize("barrier", [False, True])
def test_memory_of_another_cta(barrier):
    finding = found(in_another_cta, 2, barrier, **PAIR)
    assert finding.kind == "DataRace"
    says(finding, "'tile'[1] of CTA (1, 0, 0), bytes 512 to 1023: two accesses",
         f"task 'default' of CTA (0, 0, 0): remote_store at {at(in_another_cta, 'write')} writes 'tile'[1] of CTA (1, 0, 0), bytes "
         "512 to 1023 of its memory (generic proxy)",
         f"task 'default' of CTA (1, 0, 0): local_store at {at(in_another_cta, 'other write')} writes 'tile'[1] of CTA (1, 0, 0), "
         "bytes 512 to 1023 of its memory (generic proxy)")
    if barrier:
        says(finding, "the second task waits for 'full', but not for an arrival of the first task after its access",
             f"Mend: the arrive at {at(in_another_cta, 'arrive')} must "
             f"come after {at(in_another_cta, 'write')}, and the wait at {at(in_another_cta, 'wait')} before "
             f"{at(in_another_cta, 'other write')}")
    else:
        says(finding, "no barrier leads from task 'default' of CTA (", "Mend: call cluster_barrier after ",
             "call barrier_arrive(..., remote_cta_rank=")


def test_global_memory_of_two_ctas():
    finding = found(in_global, 2, False)
    assert finding.kind == "DataRace" and finding.grid == (2, )
    says(finding, "argument 'x_ptr', bytes 256 to 511: two accesses, and nothing orders task 'default' of CTA (",
         f"CTA (1, 0, 0): store at {at(in_global, 'each')} writes argument 'x_ptr', bytes 256 to 767 of its memory",
         f"CTA (0, 0, 0): store at {at(in_global, 'each')} writes argument 'x_ptr', bytes 0 to 511 of its memory",
         f"Mend: let each program store to a place of its own: what {at(in_global, 'each')} stores to must depend on tl.program_id "
         "along each dimension of the grid (2, 1, 1) that is larger than 1")


def test_global_memory_of_two_tasks():
    """Tasks of one CTA need no atomics: a barrier is enough, from the write to the read."""
    finding = found(in_global, 1, True)
    assert finding.kind == "DataRace"
    says(finding, "argument 'x_ptr', bytes 128 to 383: two accesses, and no barrier leads from 'default' to 'task 1' of CTA "
         "(0, 0, 0)",
         f"load at {at(in_global, 'read')} reads argument 'x_ptr', bytes 128 to 383 of its memory",
         f"store at {at(in_global, 'write')} writes argument 'x_ptr', bytes 0 to 511 of its memory",
         f"Mend: let 'default' arrive on a barrier after {at(in_global, 'write')} and 'task 1' wait for it before "
         f"{at(in_global, 'read')}")
