"""C[g] = A[g] B[g] for matrices of different sizes, by descriptors that are made for each group that has a tile; persistent."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def grouped_descriptors(a, b, c, table, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, before = tl.program_id(0), 0
    for g in range(groups):
        M, N, K = tl.load(table + g * 6), tl.load(table + g * 6 + 1), tl.load(table + g * 6 + 2)
        tiles_n = tl.cdiv(N, BN)
        count = tl.cdiv(M, BM) * tiles_n
        if tile >= before and tile < before + count:
            at_a, at_b, at_c = tl.load(table + g * 6 + 3), tl.load(table + g * 6 + 4), tl.load(table + g * 6 + 5)
            a_desc = tl.make_tensor_descriptor(a + at_a, [M, K], [K, 1], [BM, BK])
            b_desc = tl.make_tensor_descriptor(b + at_b, [K, N], [N, 1], [BK, BN])
            c_desc = tl.make_tensor_descriptor(c + at_c, [M, N], [N, 1], [BM, BN])
            while tile >= before and tile < before + count:
                m, n = (tile - before) // tiles_n * BM, (tile - before) % tiles_n * BN
                acc = tl.zeros((BM, BN), tl.float32)
                for k in range(0, K, BK):
                    x = a_desc.load([m, k])
                    y = b_desc.load([k, n])
                    acc = tl.dot(x, y, acc)
                c_desc.store([m, n], acc.to(tl.float16))
                tile += tl.num_programs(0)
        before += count


def case(sizes=((72, 96, 64), (64, 64, 0), (0, 64, 64), (8, 8, 8), (200, 40, 200), (64, 64, 64), (16, 24, 128)), bm=64, bn=64,
         bk=64, programs=3, seed=0):
    rng = np.random.default_rng(seed)
    mats = [(rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)) for m, n, k in sizes]
    a, b = (np.concatenate([pair[i].ravel() for pair in mats]) for i in (0, 1))
    c, rows, at = np.zeros(sum(m * n for m, n, _ in sizes), np.float16), [], [0, 0, 0]
    for m, n, k in sizes:
        rows.append([m, n, k, *at])
        at = [at[0] + m * k, at[1] + k * n, at[2] + m * n]

    def expected():
        return np.concatenate([(x.astype(np.float32) @ y.astype(np.float32)).ravel() for x, y in mats])
    return grouped_descriptors, (programs, ), (a, b, c, np.array(rows, np.int32).ravel(), len(sizes)), dict(
        BM=bm, BN=bn, BK=bk, num_warps=4), (c, expected)
