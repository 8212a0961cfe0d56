"""Kernels whose work is CUDA C++ of their author: a sum of vectors, a softmax, a product from shared memory, the largest of a row,
and the epilogue of a warp-specialised product.

    softmax[(rows, )](x, y, columns, BLOCK)             x, y fp32 [rows, columns]; BLOCK a power of two from `columns` on
    product[(1, )](a, b, c, M, N, K)                    fp16 [M, K] and [K, N] in shared memory, fp32 [M, N]
    largest[(rows, )](x, values, indices, BLOCK, K)     fp32 [rows, BLOCK] -> fp32, int32 [rows, K], in descending order
    gemm[(M // BM, N // BN)](a, b, bias, c, N, K, ..)   descriptors of fp16 [M, K] and [K, N] -> gelu(a b + bias), fp32 [M, N]

Shapes: one program a row, or 128 elements a program. Each function has a reference on numpy arrays, which the simulator runs. A
kernel is right if the reference does what its code does; mistakes are planted in tests/tle/test_raw.py.
"""

from typing import Literal as L

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

InOut, Input, Output = tle.raw.InOut, tle.raw.Input, tle.raw.Output
POINTER = L["!llvm.ptr<1>"]


def cuda(source, reference, **options):
    return tle.raw.dialect(name="cuda", source=source, reference=reference, **options)


def add_reference(x, y, out, first, n):
    at = np.arange(first, min(first + 128, n))
    out[at] = x[at] + y[at]


@cuda("""
__device__ void add(const float *x, const float *y, float *out, int first, int n) {
    int at = first + threadIdx.x;
    if (at < n) out[at] = x[at] + y[at];
}
""", add_reference)
def add(x: Input[POINTER], y: Input[POINTER], out: Output[POINTER], first: Input[L["i32"]], n: Input[L["i32"]]): ...


@mimw.jit
def vector_add(x, y, out, n):
    tle.raw.call(add, [x, y, out, tl.program_id(0) * 128, n])


def softmax_reference(row, scratch, n):
    row[:n] = np.exp(row[:n] - row[:n].max())
    row[:n] /= row[:n].sum()
    scratch[:] = 0


@cuda("""
__device__ float over_all(float mine, float *scratch, bool largest) {
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, mine, step);
        mine = largest ? fmaxf(mine, other) : mine + other;
    }
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = scratch[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++) mine = largest ? fmaxf(mine, scratch[warp]) : mine + scratch[warp];
    __syncthreads();
    return mine;
}

__device__ void softmax_row(float *, float *row, int64_t, int64_t, int64_t, float *, float *scratch, int64_t, int64_t, int64_t,
                            int n) {
    float most = -INFINITY, sum = 0;
    for (int at = threadIdx.x; at < n; at += blockDim.x) most = fmaxf(most, row[at]);
    most = over_all(most, scratch, true);
    for (int at = threadIdx.x; at < n; at += blockDim.x) sum += row[at] = __expf(row[at] - most);
    sum = over_all(sum, scratch, false);
    for (int at = threadIdx.x; at < n; at += blockDim.x) row[at] /= sum;
}
""", softmax_reference, extern_func_name="softmax_row")
def softmax_row(row: InOut[L["memref<?xf32, 3>"]], scratch: Output[L["memref<32xf32, 3>"]], n: Input[L["i32"]]): ...


@mimw.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    scratch = tle.gpu.alloc([32], tl.float32)
    row = tl.load(x + tl.program_id(0) * columns + at, mask=inside, other=0.0)
    row = tle.raw.call(softmax_row, [row, scratch, columns], output_indices=[0])
    tl.store(y + tl.program_id(0) * columns + at, row, mask=inside)


def product_reference(a, b, c):
    c[...] = a.astype(np.float32) @ b.astype(np.float32)


@cuda("""
#include <cuda_fp16.h>
struct Matrix { float *allocated, *aligned; int64_t offset, sizes[2], strides[2]; };

__device__ Matrix multiply(__half *, __half *a, int64_t, int64_t m, int64_t k, int64_t a_row, int64_t,
                           __half *, __half *b, int64_t, int64_t, int64_t n, int64_t b_row, int64_t,
                           float *c_allocated, float *c, int64_t c_offset, int64_t, int64_t, int64_t c_row, int64_t c_column) {
    for (int at = threadIdx.x; at < m * n; at += blockDim.x) {
        float sum = 0;
        for (int i = 0; i < k; i++) sum += __half2float(a[at / n * a_row + i]) * __half2float(b[i * b_row + at % n]);
        c[at / n * c_row + at % n] = sum;
    }
    return Matrix{c_allocated, c, c_offset, {m, n}, {c_row, c_column}};
}
""", product_reference)
def multiply(a: Input[L["memref<?x?xf16, 3>"]], b: Input[L["memref<?x?xf16, 3>"]], c: Output[L["memref<?x?xf32, 3>"]]): ...


@mimw.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left, right = tle.gpu.alloc([M, K], tl.float16), tle.gpu.alloc([K, N], tl.float16)
    made = tle.gpu.alloc([M, N], tl.float32)
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    tle.gpu.copy(a + m * K + k[None, :], left, [M, K])
    tle.gpu.copy(b + k[:, None] * N + n, right, [K, N])
    tle.raw.call_smem(multiply, [left, right, made])
    tl.store(c + m * N + n, tl.load(tle.gpu.local_ptr(made)))


def largest_reference(row, values, indices):
    order = np.argsort(-row, kind="stable")[:len(values)]
    values[:], indices[:] = row[order], order


@cuda("""
__device__ void pick(const float *, const float *row, int64_t, int64_t n, int64_t,
                     float *, float *values, int64_t, int64_t k, int64_t, int *, int *indices, int64_t, int64_t, int64_t) {
    for (int mine = threadIdx.x; mine < n; mine += blockDim.x) {
        int before = 0;
        for (int other = 0; other < n; other++)
            before += row[other] > row[mine] || (row[other] == row[mine] && other < mine);
        if (before < k) values[before] = row[mine], indices[before] = mine;
    }
}
""", largest_reference)
def pick(row: Input[L["memref<?xf32, 3>"]], values: Output[L["memref<?xf32, 3>"]], indices: Output[L["memref<?xi32, 3>"]]): ...


@mimw.jit
def largest(x, values, indices, BLOCK: tl.constexpr, K: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, K)
    tile = tl.load(x + row * BLOCK + tl.arange(0, BLOCK))
    most, where = tle.raw.call(pick, [tile, tl.zeros((K, ), tl.float32), tl.zeros((K, ), tl.int32)])
    tl.store(values + row * K + at, most)
    tl.store(indices + row * K + at, where)


def gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def epilogue_reference(tile, bias, c, row):
    n = np.arange(tile.shape[1])
    for i, line in enumerate(tile):
        c[i * row + n] = gelu(line + bias[n])


@cuda("""
__device__ float gelu(float x) { return __fdividef(x, 1 + __expf(-1.702f * x)); }

__device__ void epilogue(const float *, const float *tile, int64_t, int64_t m, int64_t n, int64_t, int64_t,
                         const float *bias, float *c, int row) {
    int columns = n, size = m * n;
    for (int at = 4 * threadIdx.x; at < size; at += 4 * blockDim.x) {
        float4 x = *(const float4 *)(tile + at), b = *(const float4 *)(bias + at % columns);
        float4 made = make_float4(gelu(x.x + b.x), gelu(x.y + b.y), gelu(x.z + b.z), gelu(x.w + b.w));
        *(float4 *)(c + at / columns * row + at % columns) = made;
    }
}
""", epilogue_reference)
def epilogue(tile: Input[L["memref<?x?xf32, 3>"]], bias: Input[POINTER], c: Output[POINTER], row: Input[L["i32"]]): ...


@mimw.jit
def gemm(a, b, bias, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
         EPILOGUE: tl.constexpr = epilogue):
    left, right = tlx.local_alloc((BM, BK), tl.float16, STAGES), tlx.local_alloc((BK, BN), tl.float16, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    with tlx.async_tasks():
        with tlx.async_task("default"):                            # load
            for i in range(tl.cdiv(K, BK)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 2 * BK * (BM + BN))
                tlx.async_descriptor_load(a, left[slot], [m, i * BK], full[slot])
                tlx.async_descriptor_load(b, right[slot], [i * BK, n], full[slot])
        with tlx.async_task(num_warps=4, registers=232):           # multiply and store
            acc = tl.zeros((BM, BN), tl.float32)
            for i in range(tl.cdiv(K, BK)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(full[slot], phase)
                acc = tlx.async_dot(left[slot], right[slot], acc)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[slot])
            tle.raw.call(EPILOGUE, [acc, bias + n, c + m * N + n, N])
