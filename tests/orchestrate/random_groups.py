"""Random grouped products: how the kernel finds its matrices, and what their sizes, strides and places are.

Input: a seed. Output: (kernel, grid, arguments, constants, output, expected). For example:

    kernel, grid, args, meta, out, expected = random_groups(3)
    python -m tests.orchestrate.random_groups 0 200         proves the plans of 200 seeds, and prints what is wrong

Drawn are: A and B by pointers that go round, by pointers of each trip, or by descriptors of the author's; B turned or not; tiles
by a `while` or a `for`; sizes of 32 or 64 bits; masks along K; leading dimensions that are larger than rows, some of them odd; C by
pointers or by a descriptor; places that 16 bytes do not divide; groups without rows, columns or a sum.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import triton.language as tl

import mimw

B = 64      # rows, columns and a trip's part of the sum of a tile


@mimw.jit
def product(a, b, c, table, g, m, n, M, N, K, x_desc, y_desc, z_desc, A: tl.constexpr, TURNED: tl.constexpr, C: tl.constexpr,
            MASKED: tl.constexpr, B: tl.constexpr):
    """One tile."""
    row = table + g * 9
    at_a, at_b, at_c = tl.load(row + 3), tl.load(row + 4), tl.load(row + 5)
    lda, ldb, ldc = tl.load(row + 6), tl.load(row + 7), tl.load(row + 8)
    rows, cols, ks = m + tl.arange(0, B), n + tl.arange(0, B), tl.arange(0, B)
    x_at = a + at_a + rows[:, None] * lda + ks[None, :]
    y_at = b + at_b + (cols[:, None] * ldb + ks[None, :] if TURNED else ks[:, None] * ldb + cols[None, :])
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        if A == "descriptors":
            x, y = x_desc.load([m, k]), y_desc.load([n, k] if TURNED else [k, n])
        else:
            inside = ks < K - k
            if A == "each trip":
                x_now, y_now = x_at + k, y_at + (k if TURNED else k * ldb)
            else:
                x_now, y_now = x_at, y_at
            if MASKED:
                x = tl.load(x_now, mask=(rows < M)[:, None] & inside[None, :], other=0.0)
                y = tl.load(y_now, mask=(cols < N)[:, None] & inside[None, :] if TURNED else inside[:, None] & (cols < N)[None, :],
                            other=0.0)
            else:
                x = tl.load(x_now, mask=rows[:, None] < M, other=0.0)
                y = tl.load(y_now, mask=cols[:, None] < N if TURNED else cols[None, :] < N, other=0.0)
            if A == "carried":
                x_at += B
                y_at += B if TURNED else B * ldb
        acc = tl.dot(x, tl.trans(y) if TURNED else y, acc)
    if C == "descriptor":
        z_desc.store([m, n], acc.to(tl.float16))
    else:
        tl.store(c + at_c + rows[:, None] * ldc + cols[None, :], acc.to(tl.float16), mask=(rows < M)[:, None] & (cols < N)[None, :])


@mimw.jit
def groups_of(a, b, c, table, groups, A: tl.constexpr, TURNED: tl.constexpr, C: tl.constexpr, TILES: tl.constexpr,
              MASKED: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0)
    for g in range(groups):
        row = table + g * 9
        M, N, K = tl.load(row).to(tl.int32), tl.load(row + 1).to(tl.int32), tl.load(row + 2).to(tl.int32)
        tiles_n = tl.cdiv(N, B)
        count = tl.cdiv(M, B) * tiles_n
        if first < count:
            x_desc, y_desc, z_desc = a, b, c
            if A == "descriptors":
                lda, ldb = tl.load(row + 6), tl.load(row + 7)
                x_desc = tl.make_tensor_descriptor(a + tl.load(row + 3), [M, K], [lda, 1], [B, B])
                shape: tl.constexpr = B
                y_desc = tl.make_tensor_descriptor(b + tl.load(row + 4), [N, K] if TURNED else [K, N], [ldb, 1], [shape, shape])
            if C == "descriptor":
                z_desc = tl.make_tensor_descriptor(c + tl.load(row + 5), [M, N], [tl.load(row + 8), 1], [B, B])
            if TILES == "while":
                tile = first
                while tile < count:
                    product(a, b, c, table, g, tile // tiles_n * B, tile % tiles_n * B, M, N, K, x_desc, y_desc, z_desc, A, TURNED,
                            C, MASKED, B)
                    tile += tl.num_programs(0)
            else:
                for tile in range(first, count, tl.num_programs(0)):
                    product(a, b, c, table, g, tile // tiles_n * B, tile % tiles_n * B, M, N, K, x_desc, y_desc, z_desc, A, TURNED,
                            C, MASKED, B)


def random_groups(seed: int):
    """The case of a seed. Most groups have places and leading dimensions that 16 bytes divide; where the author makes descriptors,
    all have."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    how = dict(A=r.choice(("carried", "each trip", "descriptors")), TURNED=r.random() < 0.4, TILES=r.choice(("while", "for")),
               C=r.choice(("pointers", "pointers", "descriptor")), MASKED=r.random() < 0.7)
    neat = how["A"] == "descriptors" or r.random() < 0.4
    lines, size, pieces = [], [0, 0, 0], []
    for _ in range(r.randrange(2, 6)):
        m, n, k = (r.choice((1, 8, 24, 64, 72, 128, 136)) for _ in range(3))
        m, n, k = (0 if r.random() < 0.06 else extent for extent in (m, n, k))
        if not how["MASKED"]:
            k = k // B * B
        odd = 0 if neat or r.random() < 0.6 else r.choice((1, 4, 3))
        inner = (k, k if how["TURNED"] else n, n)
        leading = [max(8, -(-extent // 8) * 8 + r.choice((0, 0, 8, 64))) + odd * (place < 2) for place, extent in enumerate(inner)]
        rows = (m, n if how["TURNED"] else k, m)
        places = [at + (8 - at % 8) % 8 + (0 if neat or place == 2 else r.choice((0, 0, 0, 2, 5))) for place, at in enumerate(size)]
        size = [at + extent * step + 192 for at, extent, step in zip(places, rows, leading)]
        lines.append([m, n, k, *places, *leading])
        pieces.append((m, n, k, places, leading))
    a, b = (rng.standard_normal(count + (1 << 15)).astype(np.float16) for count in size[:2])
    c = np.zeros(size[2] + 1024, np.float16)
    table = np.array(lines, np.int64 if r.random() < 0.3 else np.int32).ravel()

    def expected() -> np.ndarray:
        out = np.zeros_like(c, dtype=np.float32)
        for m, n, k, places, leading in pieces:
            x, y, z = (_matrix(array, at, shape, step) for array, at, shape, step in zip(
                (a, b, out), places, ((m, k), (n, k) if how["TURNED"] else (k, n), (m, n)), leading))
            z[...] = x.astype(np.float32) @ (y.T if how["TURNED"] else y).astype(np.float32)
        return out
    grid = (r.randrange(1, 4), )
    return groups_of, grid, (a, b, c, table, len(lines)), dict(how, B=B, num_warps=4), c, expected


def _matrix(array: np.ndarray, at: int, shape: tuple[int, int], step: int) -> np.ndarray:
    size = array.itemsize
    return np.lib.stride_tricks.as_strided(array[at:], shape, (step * size, size))


def judged(seed: int) -> tuple[str, Any]:
    """(what is wrong with the plan of a seed, "" if nothing; how the kernel is written)."""
    from mimw.compiler.orchestrate.plan import Plan
    from mimw.tools.orchestrate.plain import plain_of
    from mimw.tools.orchestrate.prove import prove
    from mimw.tools.orchestrate.written import written
    kernel, grid, args, meta, out, expected = random_groups(seed)
    r = random.Random(-seed)
    plan = Plan(stages=r.choice((1, 2, 3)), stores=r.random() < 0.5)
    one = written(plain_of(kernel, grid, args, meta, "sm_90a"), plan)
    if one.wrong or one.kernel is None:
        return one.wrong or one.refused or f"nothing is handed over: {[str(remark) for remark in one.remarks]}", meta
    mimw.simulate(one.kernel, grid, *one.arguments(), num_warps=4)
    if not np.allclose(out.astype(np.float32), expected(), rtol=1e-2, atol=0.1):
        return "the products are wrong", meta
    proof = prove(one, seeds=2, limit=4)
    too_short = "has more than" in proof.wrong      # few chunks: nothing is proved of a full pipe
    return "" if proof.ok or too_short else proof.wrong, meta


if __name__ == "__main__":
    wrong = 0
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        said, drawn = judged(number)
        wrong += bool(said)
        print(number, drawn, said or "right", flush=True)
    raise SystemExit(wrong > 0)
