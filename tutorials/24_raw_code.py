"""24  Raw code: an instruction in PTX, a row of softmax in CUDA C++, and a CUDA epilogue in a warp-specialised product.

    python tutorials/24_raw_code.py           on a GPU: check, measure against torch; elsewhere: check and simulate small cases

If no function has the instruction that you need, or you already have CUDA C++, `tle.raw` runs it in place: every thread of
the task executes the function once. The kernel around it stays a kernel of tiles, with TMA, tensor cores and tasks.

You declare the arguments, and the declaration is all that the tools know:

    InOut["memref<?xf32, 3>"]    a tile, spilled to shared memory, or a buffer there; it is read and written
    Input["!llvm.ptr<1>"]        a pointer into global memory;  Input["i32"], Input["f32"]   a number

The simulator runs `reference`, a few lines of numpy, instead; `mimw check` looks for races of what is declared, and says in its
report what it has taken as declared. docs/RAW.md has all of it.

How the program is run and measured is harness.py's.
"""

from typing import Literal as L

import numpy as np
import triton
import triton.language as tl

import mimw
from mimw import tle, tlx
from mimw.tle.raw import InOut, Input, Output


# Step 1. PTX. `tanh.approx.f32` is one instruction of the chip. The function has a parameter for each of the kernel's arguments; a
# memref is its address where it takes one parameter. %tid.x is the thread among those that run the code.
def tanh_of(tile, n):
    tile[:n] = np.tanh(tile[:n])


@tle.raw.dialect(name="ptx", reference=tanh_of, source="""
.func fast_tanh(.param .b64 tile, .param .b32 n)
{
    .reg .b64 %a<3>; .reg .b32 %t, %n, %step; .reg .f32 %x; .reg .pred %more;
    ld.param.b64 %a0, [tile];
    ld.param.b32 %n, [n];
    mov.u32 %t, %tid.x;
    mov.u32 %step, %ntid.x;
again:
    setp.lt.s32 %more, %t, %n;
    @!%more ret;
    mul.wide.s32 %a1, %t, 4;
    add.s64 %a2, %a0, %a1;
    ld.f32 %x, [%a2];
    tanh.approx.f32 %x, %x;
    st.f32 [%a2], %x;
    add.s32 %t, %t, %step;
    bra again;
}
""")
def fast_tanh(tile: InOut[L["memref<?xf32, 3>"]], n: Input[L["i32"]]): ...


@mimw.jit
def tanh(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + at, mask=at < n, other=0.0)
    tile = tle.raw.call(fast_tanh, [tile, BLOCK])
    tl.store(y + at, tile, mask=at < n)


# Step 2. CUDA C++. A memref of rank 1 is five parameters: two pointers, an offset, the extent, the stride. Shared memory is the
# kernel's: what the warps exchange lies in a buffer that is handed over; __syncthreads() is a barrier of those that run the code.
def softmax_of(row, scratch, n):
    row[:n] = np.exp(row[:n] - row[:n].max())
    row[:n] /= row[:n].sum()
    scratch[:] = 0


@tle.raw.dialect(name="cuda", extern_func_name="softmax_row", reference=softmax_of, source="""
template <bool MAX> __device__ float over_all(float mine, float *scratch) {
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, mine, step);
        mine = MAX ? fmaxf(mine, other) : mine + other;
    }
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = scratch[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++) mine = MAX ? fmaxf(mine, scratch[warp]) : mine + scratch[warp];
    __syncthreads();
    return mine;
}

__device__ void softmax_row(float *, float *row, int64_t, int64_t, int64_t, float *, float *scratch, int64_t, int64_t, int64_t,
                            int n) {
    float most = -INFINITY, sum = 0;
    for (int at = threadIdx.x; at < n; at += blockDim.x) most = fmaxf(most, row[at]);
    most = over_all<true>(most, scratch);
    for (int at = threadIdx.x; at < n; at += blockDim.x) sum += row[at] = __expf(row[at] - most);
    sum = over_all<false>(sum, scratch);
    for (int at = threadIdx.x; at < n; at += blockDim.x) row[at] = __fdividef(row[at], sum);
}
""")
def softmax_row(row: InOut[L["memref<?xf32, 3>"]], scratch: Output[L["memref<32xf32, 3>"]], n: Input[L["i32"]]): ...


@mimw.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    tile, scratch = tle.gpu.alloc([BLOCK], tl.float32), tle.gpu.alloc([32], tl.float32)
    tl.store(tle.gpu.local_ptr(tile), tl.load(x + row * columns + at, mask=at < columns, other=0.0))
    tle.raw.call_smem(softmax_row, [tile, scratch, columns])                # in place: nothing is spilled
    tl.store(y + row * columns + at, tl.load(tle.gpu.local_ptr(tile)), mask=at < columns)


# Step 3. An epilogue. 02's product, whose consumers end in CUDA: bias, an activation of your own, and the store. A
# pointer points where the tile's corner goes. In a task threadIdx.x, blockDim.x and __syncthreads() are those of the task.
def gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def epilogue_of(tile, bias, c, row):
    n = np.arange(tile.shape[1])
    for i, line in enumerate(tile):
        c[i * row + n] = gelu(line + bias[n]).astype(np.float16)


@tle.raw.dialect(name="cuda", extern_func_name="epilogue", reference=epilogue_of, source="""
#include <cuda_fp16.h>
__device__ __half2 gelu(float x, float y) {
    return __floats2half2_rn(__fdividef(x, 1 + __expf(-1.702f * x)), __fdividef(y, 1 + __expf(-1.702f * y)));
}

__device__ void epilogue(const float *, const float *tile, int64_t, int64_t rows, int64_t columns, int64_t, int64_t,
                         const float *bias, __half *c, int row) {
    int width = columns, size = rows * width;
    for (int at = 4 * threadIdx.x; at < size; at += 4 * blockDim.x) {
        int i = at / width, j = at % width;
        float4 x = *(const float4 *)(tile + at), b = *(const float4 *)(bias + j);
        __half2 pair[2] = {gelu(x.x + b.x, x.y + b.y), gelu(x.z + b.z, x.w + b.w)};
        *(uint2 *)(c + (int64_t)i * row + j) = *(uint2 *)pair;
    }
}
""")
def epilogue(tile: Input[L["memref<?x?xf32, 3>"]], bias: Input[L["!llvm.ptr<1>"]], c: Output[L["!llvm.ptr<1>"]],
             row: Input[L["i32"]]): ...


@mimw.jit
def gemm(a, b, bias, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    left, right = tlx.local_alloc((BM, BK), tl.float16, STAGES), tlx.local_alloc((BK, BN), tl.float16, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    with tlx.async_tasks():
        with tlx.async_task("default"):                                # load
            for i in range(tl.cdiv(K, BK)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 2 * BK * (BM + BN))
                tlx.async_descriptor_load(a, left[slot], [m, i * BK], full[slot])
                tlx.async_descriptor_load(b, right[slot], [i * BK, n], full[slot])
        with tlx.async_task(num_warps=4, registers=232):               # multiply, add, store
            acc = tl.zeros((BM, BN), tl.float32)
            for i in range(tl.cdiv(K, BK)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(full[slot], phase)
                acc = tlx.async_dot(left[slot], right[slot], acc)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[slot])
            tle.raw.call(epilogue, [acc, bias + n, c + m.to(tl.int64) * N + n, N])


# The launches, of numpy arrays or torch tensors; `launch(kernel, grid, *args, **meta)` is a machine.
def tanh_array(launch, x, y, BLOCK=1024):
    launch(tanh, (triton.cdiv(x.shape[0], BLOCK), ), x, y, x.shape[0], BLOCK=BLOCK)


def softmax_rows(launch, x, y):
    rows, columns = x.shape
    launch(softmax, (rows, ), x, y, columns, BLOCK=triton.next_power_of_2(columns), num_warps=4 if columns <= 2048 else 8)


def multiply(launch, a, b, bias, c, BM=128, BN=128, BK=64, STAGES=3):
    (m, k), n = a.shape, b.shape[1]
    describe = mimw.TensorDescriptor.from_tensor
    return launch(gemm, (m // BM, n // BN), describe(a, [BM, BK]), describe(b, [BK, BN]), bias, c, n, k,
                  BM=BM, BN=BN, BK=BK, STAGES=STAGES)


# On an H200 (2026-11-23): softmax of 8192 rows of 4096, 71.4 us, 3758 GB/s, 1.55 of torch's speed; the product of 8192, 2368 us,
# 464 TFLOP/s, 0.86 of torch's matmul, bias and activation in three calls. What that product lacks are 02's and 03's means, not the
# epilogue's language: one consumer of 128 x 128, whose tile of fp32 takes 64 KB more, so that one program has an SM to itself.


# What if?
#     write `exit;` for `ret;` in step 1                     refused, with the line of the PTX: the kernel goes on behind the call
#     declare the tile of step 1 an Input                    the call gives nothing back, and the store of it says so
#     leave the bias out of the declaration of step 3        the call has one argument too many; of the call as well, and the
#                                                            function has one parameter more than is declared


def case():
    """A small product with its epilogue on numpy arrays, and what should come out: `mimw check 24_raw_code.py:case`."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((128, 128), (128, 128)))
    bias, c = np.linspace(-1, 1, 128, dtype=np.float32), np.zeros((128, 128), np.float16)
    wanted = gelu(a.astype(np.float32) @ b.astype(np.float32) + bias)
    return multiply(lambda kernel, grid, *args, **meta: mimw.Case(kernel, grid, args, meta, expected={"c": wanted}), a, b, bias, c,
                    BM=64, BN=128, BK=64, STAGES=2)


def simulate_one():
    """Small cases on the simulator, and under `mimw.check`."""
    import harness
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 200), np.float32)
    softmax_rows(mimw.simulate, x, y := np.zeros_like(x))
    powers = np.exp(x - x.max(1, keepdims=True))
    print("softmax in CUDA: largest difference to numpy", np.abs(y - powers / powers.sum(1, keepdims=True)).max())
    harness.simulated(case(), seeds=2)


def measure_one(n):
    """Softmax of rows of 4096, and the product with its epilogue, against torch."""
    import torch
    from measure import measured

    def launch(kernel, grid, *args, **meta):
        kernel[grid](*args, **meta)

    x = torch.randn(n, 4096, device="cuda")
    y = torch.empty_like(x)
    print(measured("softmax in CUDA", dict(rows=n, columns=4096), {}, lambda: softmax_rows(launch, x, y),
                   {"torch": lambda: torch.softmax(x, 1)}, y, torch.softmax(x.double(), 1), flops=0, allowed=1e-4,
                   moved=2 * x.numel() * 4))
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    bias, c = torch.linspace(-1, 1, n, device="cuda"), torch.empty(n, n, device="cuda", dtype=torch.float16)

    def by_torch():
        out = torch.matmul(a, b) + bias.half()
        return out * torch.sigmoid(1.702 * out)

    print(measured("product with a CUDA epilogue", dict(M=n, N=n, K=n), dict(BM=128, BN=128, BK=64, STAGES=3),
                   lambda: multiply(launch, a, b, bias, c), {"torch": by_torch, "cuBLAS alone": lambda: torch.matmul(a, b)}, c,
                   by_torch(), flops=2 * n**3, allowed=2e-2))


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (4096, ), (8192, ))
