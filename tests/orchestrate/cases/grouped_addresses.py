"""C[g] = A[g] B[g] for matrices that lie anywhere, as in Triton's tutorial 08: addresses, sizes and strides are loaded."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def by_descriptors(a_at, b_at, c_at, sizes, leading, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, before = tl.program_id(0), 0
    for g in range(groups):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        tiles_n = tl.cdiv(N, BN)
        count = tl.cdiv(M, BM) * tiles_n
        if tile >= before and tile < before + count:
            lda, ldb, ldc = tl.load(leading + g * 3), tl.load(leading + g * 3 + 1), tl.load(leading + g * 3 + 2)
            a = tl.load(a_at + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_at + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_at + g).to(tl.pointer_type(tl.float16))
            a_desc = tl.make_tensor_descriptor(a, shape=[M, K], strides=[lda, 1], block_shape=[BM, BK])
            b_desc = tl.make_tensor_descriptor(b, shape=[K, N], strides=[ldb, 1], block_shape=[BK, BN])
            c_desc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[ldc, 1], block_shape=[BM, BN])
            while tile >= before and tile < before + count:
                m, n = (tile - before) // tiles_n * BM, (tile - before) % tiles_n * BN
                acc = tl.zeros((BM, BN), tl.float32)
                for k in range(0, tl.cdiv(K, BK)):
                    acc += tl.dot(a_desc.load([m, k * BK]), b_desc.load([k * BK, n]))
                c_desc.store([m, n], acc.to(tl.float16))
                tile += tl.num_programs(0)
        before += count


@mimw.jit
def by_pointers(a_at, b_at, c_at, sizes, leading, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, before = tl.program_id(0), 0
    for g in range(groups):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        tiles_n = tl.cdiv(N, BN)
        count = tl.cdiv(M, BM) * tiles_n
        while tile >= before and tile < before + count:
            lda, ldb, ldc = tl.load(leading + g * 3), tl.load(leading + g * 3 + 1), tl.load(leading + g * 3 + 2)
            a = tl.load(a_at + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_at + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_at + g).to(tl.pointer_type(tl.float16))
            rows = (tile - before) // tiles_n * BM + tl.arange(0, BM)
            cols = (tile - before) % tiles_n * BN + tl.arange(0, BN)
            ks = tl.arange(0, BK)
            x_at, y_at = a + rows[:, None] * lda + ks[None, :], b + ks[:, None] * ldb + cols[None, :]
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, tl.cdiv(K, BK)):      # full tiles only
                tl.multiple_of(x_at, [16, 16])
                tl.multiple_of(y_at, [16, 16])
                acc += tl.dot(tl.load(x_at), tl.load(y_at))
                x_at += BK
                y_at += BK * ldb
            tl.store(c + rows[:, None] * ldc + cols[None, :], acc.to(tl.float16))
            tile += tl.num_programs(0)
        before += count


def case(kernel=by_descriptors, sizes=((72, 96, 64), (64, 64, 136), (0, 64, 64), (200, 40, 200)), programs=2, seed=0):
    """(kernel, grid, arguments, constants, (arrays that addresses lead to, those that are written, what they are then))."""
    rng = np.random.default_rng(seed)
    a, b, c = ([_matrix(rng, *(size[axis] for axis in axes)) for size in sizes] for axes in ((0, 2), (2, 1), (0, 1)))
    tables = [np.array([one.ctypes.data for one in many], np.int64) for many in (a, b, c)]
    leading = np.array([one.strides[0] // 2 for group in zip(a, b, c) for one in group], np.int32)

    def expected():
        return [x.astype(np.float32) @ y.astype(np.float32) for x, y in zip(a, b)]
    args = (*tables, np.array(sizes, np.int32).ravel(), leading, len(sizes))
    memory = [one.base if one.base is not None else one for one in (*a, *b, *c)]
    return kernel, (programs, ), args, dict(BM=64, BN=64, BK=64, num_warps=4), (memory, c, expected)


def descriptors(**sizes):
    return case(by_descriptors, **sizes)


def pointers(sizes=((64, 128, 64), (128, 64, 192), (64, 64, 128)), **more):
    return case(by_pointers, sizes=sizes, **more)


def _matrix(rng, rows: int, columns: int) -> np.ndarray:
    """Random numbers, in rows of a few elements more that begin at multiples of 16 bytes."""
    return rng.standard_normal((max(rows, 1), columns + 8)).astype(np.float16)[:rows, :columns]
