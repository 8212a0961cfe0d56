"""A copy to start from, the smallest kernel of two tasks: one loads a tile into shared memory, the other stores it.

    python two_tasks.py                      on the GPU (with torch), or simulated on numpy where there is none
    mimw check two_tasks.py:case             races, deadlocks and wrong results, under many interleavings
    mimw simulate --timeline copy.html two_tasks.py:case

Input: n numbers, fp32. Output: the same numbers elsewhere.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
from mimw import tlx


@mimw.jit
def copy(source, target, n, BLOCK: tl.constexpr):
    tile = tlx.local_alloc((BLOCK, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):                 # store
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tlx.barrier_wait(full[0], 0)
            tl.store(target + at, tlx.local_load(tile[0]), mask=at < n)
        with tlx.async_task(num_warps=4):               # load
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tlx.local_store(tile[0], tl.load(source + at, mask=at < n, other=0.0))
            tlx.barrier_arrive(full[0])


def launch(source, target):
    """(kernel, grid, args, meta), for numpy arrays or torch tensors."""
    return copy, (triton.cdiv(source.shape[0], 256), ), (source, target, source.shape[0]), {"BLOCK": 256}


def case():
    """The launch that `mimw check`, `explain`, `predict` and `export` are given, and what its result should be."""
    source = np.arange(1000, dtype=np.float32)
    return mimw.Case(*launch(source, np.zeros_like(source)), expected={"target": source})


def main():
    kernel, grid, args, meta = case()
    try:
        import torch
        if torch.cuda.is_available():
            kernel, grid, args, meta = launch(torch.arange(1000.0, device="cuda"), torch.zeros(1000, device="cuda"))
    except ImportError:
        pass
    kernel[grid](*args, **meta)         # simulated where there is no GPU
    source, target = args[:2]
    assert bool((source == target).all())
    print(f"copied {source.shape[0]} numbers")


if __name__ == "__main__":
    main()
