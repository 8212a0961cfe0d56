"""A pipelined GEMM to start from: C = A B in fp16, one task loads tiles by TMA, another multiplies them.

    python gemm.py                      on the GPU (with torch), or simulated on numpy where there is none
    mimw check gemm.py:case             races, deadlocks and wrong results, under many interleavings
    mimw explain gemm.py:case           warps, layouts, shared memory, barriers
    mimw predict gemm.py:case           time on an H200, and what bounds it
    mimw export gemm.py:case -o build   a cubin with a C header and a launcher

Input: A (M, K) and B (K, N), fp16, rows contiguous. Output: C (M, N), fp16, summed in fp32.
"""

import triton
import triton.language as tl

import mimw
from mimw import tlx


@mimw.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    A = tlx.local_alloc((BM, BK), tl.float16, STAGES)
    B = tlx.local_alloc((BK, BN), tl.float16, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    with tlx.async_tasks():
        with tlx.async_task("default"):                             # load
            for i in range(tl.cdiv(K, BK)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(free[slot], phase ^ 1)             # the first round finds every slot free
                tlx.barrier_expect_bytes(full[slot], 2 * BK * (BM + BN))
                tlx.async_descriptor_load(a, A[slot], [m, i * BK], full[slot])
                tlx.async_descriptor_load(b, B[slot], [i * BK, n], full[slot])
        with tlx.async_task(num_warps=4, registers=232):            # multiply and store
            acc = tl.zeros((BM, BN), tl.float32)
            for i in range(tl.cdiv(K, BK)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(full[slot], phase)
                acc = tlx.async_dot(A[slot], B[slot], acc)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[slot])
            c.store([m, n], acc.to(tl.float16))


BLOCKS = {"BM": 64, "BN": 128, "BK": 64, "STAGES": 3}


def launch(a, b, c):
    """(kernel, grid, args, meta) of C = A B, for numpy arrays or torch tensors."""
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = BLOCKS["BM"], BLOCKS["BN"], BLOCKS["BK"]
    described = [mimw.TensorDescriptor.from_tensor(*one) for one in ((a, [bm, bk]), (b, [bk, bn]), (c, [bm, bn]))]
    return gemm, (triton.cdiv(m, bm), triton.cdiv(n, bn)), (*described, k), BLOCKS


def case():
    """The launch that `mimw check`, `explain`, `predict` and `export` are given: small, on numpy arrays, with what C should be. It
    has more than one program along each dimension of the grid, so that a mistake in any shows."""
    import numpy as np
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((128, 256), (256, 256)))
    return mimw.Case(*launch(a, b, np.zeros((128, 256), np.float16)), expected={"c": a.astype(np.float32) @ b.astype(np.float32)})


def main():
    import numpy as np
    try:
        import torch
        on_gpu = torch.cuda.is_available()
    except ImportError:
        on_gpu = False
    if on_gpu:
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((1024, 512), (512, 768)))
        c = torch.zeros(1024, 768, device="cuda", dtype=torch.float16)
        kernel, grid, args, meta = launch(a, b, c)
        kernel[grid](*args, **meta)
        difference, where = (c.float() - a.float() @ b.float()).abs().max().item(), torch.cuda.get_device_name()
    else:
        kernel, grid, args, meta = case()
        mimw.simulate(kernel, grid, *args, **meta)
        a, b, c = (one.base.array.astype(np.float32) for one in args[:3])
        difference, where = abs(c - a @ b).max(), "the simulator"
    print(f"C = A B on {where}: largest difference {difference:.3g}")
    assert difference < 0.1


if __name__ == "__main__":
    main()
