"""C[g] = A[g] B[g] for matrices of different sizes, with all edges masked, and a promise of what 16 divides; persistent."""
import triton.language as tl

import mimw

from . import grouped_descriptors


@mimw.jit
def grouped_pointers(a, b, c, table, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, before = tl.program_id(0), 0
    for g in range(groups):
        M, N, K = tl.load(table + g * 6), tl.multiple_of(tl.load(table + g * 6 + 1), 8), tl.load(table + g * 6 + 2)
        K = tl.multiple_of(K, 8)
        tiles_n = tl.cdiv(N, BN)
        count = tl.cdiv(M, BM) * tiles_n
        if tile >= before and tile < before + count:
            a_g = a + tl.multiple_of(tl.load(table + g * 6 + 3), 8)
            b_g = b + tl.multiple_of(tl.load(table + g * 6 + 4), 8)
            c_g = c + tl.multiple_of(tl.load(table + g * 6 + 5), 8)
            while tile >= before and tile < before + count:
                rows = (tile - before) // tiles_n * BM + tl.arange(0, BM)
                cols = (tile - before) % tiles_n * BN + tl.arange(0, BN)
                ks = tl.arange(0, BK)
                x_at = a_g + rows[:, None] * K + ks[None, :]
                y_at = b_g + ks[:, None] * N + cols[None, :]
                acc = tl.zeros((BM, BN), tl.float32)
                for k in range(0, K, BK):
                    x = tl.load(x_at, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
                    y = tl.load(y_at, mask=(ks[:, None] < K - k) & (cols[None, :] < N), other=0.0)
                    acc = tl.dot(x, y, acc)
                    x_at += BK
                    y_at += BK * N
                tl.store(c_g + rows[:, None] * N + cols[None, :], acc.to(tl.float16),
                         mask=(rows[:, None] < M) & (cols[None, :] < N))
                tile += tl.num_programs(0)
        before += count


def case(**sizes):
    _, grid, args, meta, result = grouped_descriptors.case(**sizes)
    return grouped_pointers, grid, args, meta, result
