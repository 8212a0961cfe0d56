"""23  Local memories: five kernels with `tle.dsa`, on an H200 and, simulated, on an Ascend 910B.

    python tutorials/23_local_memories.py           on a GPU: check, measure against torch; elsewhere: simulate both chips

An accelerator whose memories software manages has no caches: software copies all operands of a core to it. `tle.dsa` names
these memories, and a kernel places its buffers in them:

    UB                operands of the vector unit                 L1                operands of the cube unit, staged
    L0A, L0B          the cube unit's operands                    L0C               its sums

On a GPU the same source gets registers where that will do, else shared memory, and products that the tensor cores take from shared
memory (docs/SPACES.md has the table). So one kernel is timed here and checked for the other chip.

How the program is run and measured is harness.py's.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
from mimw import tle

UB, L1 = tle.dsa.ascend.UB, tle.dsa.ascend.L1
L0A, L0B, L0C = tle.dsa.ascend.L0A, tle.dsa.ascend.L0B, tle.dsa.ascend.L0C


# Step 1. A copy moves the leading box of a buffer: [size] with the size of the tail, and no mask anywhere. Buffers may have any
# extents: 1000 is as good as 1024. The loop asks for double buffering; that z aliases neither x nor y is the author's promise,
# without which the loads of a trip would have to wait for the store of the trip before (take it away, and `mimw explain` says so).
@mimw.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr, LANES: tl.constexpr):
    """z = x + y, of n elements, a block after the other."""
    at = tl.arange(0, LANES)
    a = tle.dsa.alloc([BLOCK], tl.float32, UB)
    b = tle.dsa.alloc([BLOCK], tl.float32, UB)
    step = tl.num_programs(0) * BLOCK
    with tle.dsa.hint(inter_no_alias=True):
        for first in tle.dsa.pipeline(tl.program_id(0) * BLOCK, n, step, num_stages=2):
            size = tl.minimum(n - first, BLOCK)
            tle.dsa.copy(x + first + at, a, [size])
            tle.dsa.copy(y + first + at, b, [size])
            tle.dsa.add(a, b, a)
            tle.dsa.copy(a, z + first + at, [size])


# Step 2. Tensors offer what functions of buffers do not: `to_tensor` is a buffer's value, `to_buffer` a buffer of a value. The
# elements beyond the tail are undefined, so the tensor masks them.
@mimw.jit
def softmax(x, y, columns, WIDTH: tl.constexpr):
    """Each row of y is the softmax of that row of x."""
    at = tl.arange(0, WIDTH)
    row = tl.program_id(0) * columns
    line = tle.dsa.alloc([WIDTH], tl.float32, UB)
    tle.dsa.copy(x + row + at, line, [columns])
    values = tl.where(at < columns, tle.dsa.to_tensor(line), float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tle.dsa.copy(tle.dsa.to_buffer(powers / tl.sum(powers, 0), UB), y + row + at, [columns])


# Step 3. Weights are read once a program and stay in UB; rows come and go, the next under way while this one is computed on.
@mimw.jit
def layer_norm(x, weight, bias, y, rows, columns, eps, WIDTH: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, by rows."""
    at = tl.arange(0, WIDTH)
    scale = tle.dsa.alloc([WIDTH], tl.float32, UB)
    shift = tle.dsa.alloc([WIDTH], tl.float32, UB)
    line = tle.dsa.alloc([WIDTH], tl.float32, UB)
    tle.dsa.copy(weight + at, scale, [columns])
    tle.dsa.copy(bias + at, shift, [columns])
    for row in tle.dsa.pipeline(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        tle.dsa.copy(x + row * columns + at, line, [columns], inter_no_alias=True)
        values = tl.where(at < columns, tle.dsa.to_tensor(line), 0.0)
        centred = tl.where(at < columns, values - tl.sum(values, 0) / columns, 0.0)
        normal = tle.dsa.to_buffer(centred / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps), UB)
        tle.dsa.mul(normal, scale, normal)
        tle.dsa.add(normal, shift, normal)
        tle.dsa.copy(normal, y + row * columns + at, [columns])


# Step 4. A product: blocks go from global memory to L1, on to L0A and L0B, and the sums stay in L0C. On a GPU L1 is a ring in
# shared memory, filled some trips ahead, and the tensor cores read it there: the ways to L0A and L0B cost nothing.
@mimw.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """C = A B, for extents that are multiples of the tiles'. Eight rows of tiles are taken together, for L2."""
    wide = N // BN
    first = tl.program_id(0) // (8 * wide) * 8
    tall = tl.minimum(M // BM - first, 8)
    inside = tl.program_id(0) % (8 * wide)
    rows = (first + inside % tall) * BM + tl.arange(0, BM)
    columns = inside // tall * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = tle.dsa.alloc([BM, BK], tl.float16, L1)
    right = tle.dsa.alloc([BK, BN], tl.float16, L1)
    sums = tl.zeros([BM, BN], tl.float32)
    for k in tle.dsa.pipeline(0, K, BK, num_stages=STAGES):
        tle.dsa.copy(a + rows[:, None] * K + (k + inner)[None, :], left, [BM, BK])
        tle.dsa.copy(b + (k + inner)[:, None] * N + columns[None, :], right, [BK, BN])
        x = tle.dsa.to_buffer(tle.dsa.to_tensor(left), L0A)
        y = tle.dsa.to_buffer(tle.dsa.to_tensor(right), L0B)
        sums = tl.dot(tle.dsa.to_tensor(x), tle.dsa.to_tensor(y), sums)
    done = tle.dsa.to_buffer(sums.to(tl.float16), L0C)
    tle.dsa.copy(done, c + rows[:, None] * N + columns[None, :], [BM, BN])


# Step 5. Attention: the scores of a block, their softmax with the sums so far, and the block's part of the output.
@mimw.jit
def attention(q, k, v, o, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """o = softmax(q k^T * scale) v for one head of N keys a program of grid axis 1, BM rows a program of axis 0."""
    head = tl.program_id(1) * N * D
    rows, keys, inner = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    queries = tle.dsa.alloc([BM, D], tl.float16, L1)
    some_keys = tle.dsa.alloc([D, BN], tl.float16, L1)
    some_values = tle.dsa.alloc([BN, D], tl.float16, L1)
    tle.dsa.copy(q + head + rows[:, None] * D + inner[None, :], queries, [BM, D])
    left = tle.dsa.to_buffer(tle.dsa.to_tensor(queries), L0A)
    best = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    out = tl.zeros([BM, D], tl.float32)
    for first in tle.dsa.pipeline(0, N, BN, num_stages=2):
        tle.dsa.copy(k + head + (first + keys)[None, :] * D + inner[:, None], some_keys, [D, BN])
        tle.dsa.copy(v + head + (first + keys)[:, None] * D + inner[None, :], some_values, [BN, D])
        scores = tl.dot(tle.dsa.to_tensor(left), tle.dsa.to_tensor(some_keys)) * scale
        now = tl.maximum(best, tl.max(scores, 1))
        powers = tl.exp(scores - now[:, None])
        shrink = tl.exp(best - now)
        total = total * shrink + tl.sum(powers, 1)
        out = tl.dot(powers.to(tl.float16), tle.dsa.to_tensor(some_values), out * shrink[:, None])
        best = now
    done = tle.dsa.to_buffer((out / total[:, None]).to(tl.float16), UB)
    tle.dsa.copy(done, o + head + rows[:, None] * D + inner[None, :], [BM, D])


# Measured on an H200 (torch 2.11.0, 2026-11-23, cold L2, microseconds):
#
#     matmul, 8192 x 8192 x 8192, fp16, 128 x 256 x 64, 4 stages   1692; the same loop of tl.load and tl.dot 1716; cuBLAS 1591
#     vector_add, 2^26 elements, blocks of 8000                     197; torch.add 190
#     softmax, 8192 rows of 4096                                     71; torch.softmax 111
#     layer_norm, 8192 rows of 4096                                  76; torch 98


# The launches, of numpy arrays or torch tensors; `launch(kernel, grid, *args, **meta)` is a machine.
def add_arrays(launch, x, y, z, BLOCK=8000, programs=264, **options):
    lanes = triton.next_power_of_2(BLOCK)
    launch(vector_add, (programs, ), x, y, z, x.shape[0], BLOCK=BLOCK, LANES=lanes, **options)


def softmax_rows(launch, x, y, **options):
    rows, columns = x.shape
    launch(softmax, (rows, ), x, y, columns, WIDTH=triton.next_power_of_2(columns), **options)


def normalise_rows(launch, x, weight, bias, y, eps=1e-5, programs=264, **options):
    rows, columns = x.shape
    width = triton.next_power_of_2(columns)
    launch(layer_norm, (programs, ), x, weight, bias, y, rows, columns, eps, WIDTH=width, **options)


def multiply(launch, a, b, c, BM=128, BN=256, BK=64, STAGES=3, **options):
    (m, k), n = a.shape, b.shape[1]
    return launch(matmul, (m // BM * (n // BN), ), a, b, c, m, n, k, BM=BM, BN=BN, BK=BK, STAGES=STAGES,
                  **{"num_warps": 8, **options})


def attend(launch, q, k, v, o, BM=128, BN=64, **options):
    heads, n, d = q.shape
    launch(attention, (n // BM, heads), q, k, v, o, n, d**-0.5, BM=BM, BN=BN, D=d, **{"num_warps": 8, **options})


# What if?
#     take `inter_no_alias=True` away         the loop runs as it is written; `mimw explain` names the copy that stores
#     let size be BLOCK                       the last block of x ends outside of the array: the simulator names the line
#     put `left` of `matmul` into UB          check for ascend_910b refuses: there is no way from UB to L0A


def case():
    """A small product on numpy arrays, and what should come out: `mimw check 23_local_memories.py:case --target ascend_910b`."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((128, 64), (64, 64)))
    wanted = {"c": a.astype(np.float32) @ b}
    return multiply(lambda kernel, grid, *args, **meta: mimw.Case(kernel, grid, args, meta, expected=wanted), a, b,
                    np.zeros((128, 64), np.float16), BM=64, BN=64, BK=32)


def simulate_one():
    """Small cases on the simulator, by the rules of both chips."""
    random = np.random.default_rng(0)

    def some(*shape, kind: type = np.float32):
        return random.standard_normal(shape, np.float32).astype(kind)

    for chip in ("sm_90a", "ascend_910b"):

        def launch(kernel, grid, *args, **meta):
            mimw.simulate(kernel, grid, *args, target=chip, **meta)

        x, y = some(1234), some(1234)
        add_arrays(launch, x, y, z := np.zeros_like(x), BLOCK=100, programs=3)
        a, b = some(128, 64, kind=np.float16), some(64, 64, kind=np.float16)
        multiply(launch, a, b, c := np.zeros((128, 64), np.float16), BM=64, BN=64, BK=32)
        print(f"simulated as {chip}: z = x + y {np.array_equal(z, x + y)}; largest error of A B "
              f"{np.abs(c - a.astype(np.float32) @ b.astype(np.float32)).max():.4f}")


def measure_one(n):
    """The product, against cuBLAS."""
    import torch
    from measure import measured

    def launch(kernel, grid, *args, **meta):
        kernel[grid](*args, **meta)

    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    print(measured("matmul in words of tle.dsa", dict(M=n, N=n, K=n), dict(BM=128, BN=256, BK=64, STAGES=3),
                   lambda: multiply(launch, a, b, c), {"cuBLAS": lambda: torch.matmul(a, b)}, c, a @ b, flops=2 * n**3,
                   allowed=2e-3))


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (8192, ))
