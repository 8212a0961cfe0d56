"""The inverse of a unit lower triangular matrix of 64 rows.

Input: A, the part below the diagonal, fp32, zeros elsewhere. Output: (I + A)^-1, fp32. For example:

    T = inverse(A) * beta[None, :]

Blocks on the diagonal are inverted by forward substitution in fp32: their powers may be large though their inverse is not (keys
that are alike), so no long series of powers is summed. Then blocks are joined, in products of fp16, which has tf32's digits. With
D, the inverses of blocks on the diagonal, and E = D A, A without these blocks, (I + A)^-1 = (I + E)^-1 D; of larger blocks of two
E^2 = 0, and of four E^4 = 0, so (I + E)^-1 = I - E or (I - E) (I + E^2).
"""

import triton.language as tl

import mimw

from .nouns import C

BLOCK = tl.constexpr(8)
BLOCKS = tl.constexpr(8)


@mimw.jit
def blocks_inverse(A):
    """The inverses of I + A's blocks on the diagonal, as a (BLOCKS, BLOCK, BLOCK) tile."""
    parts = tl.reshape(A, (BLOCKS, BLOCK, BLOCKS, BLOCK))
    own = tl.arange(0, BLOCKS)[:, None, None, None] == tl.arange(0, BLOCKS)[None, None, :, None]
    L = tl.sum(tl.where(own, parts, 0.0), 2)
    i, j = tl.arange(0, BLOCK)[None, :, None], tl.arange(0, BLOCK)[None, None, :]
    X = tl.where(i == j, 1.0, 0.0) + tl.zeros((BLOCKS, BLOCK, BLOCK), tl.float32)
    for step in tl.static_range(BLOCK - 1):
        column = tl.sum(tl.where(j == step, L, 0.0), 2)     # of L: zero in the rows up to `step`
        row = tl.sum(tl.where(i == step, X, 0.0), 1)        # of X: final
        X -= column[:, :, None] * row[:, None, :]
    return X


@mimw.jit
def on_diagonal(X):
    """The tile of blocks as blocks on the diagonal of a (64, 64) one."""
    own = tl.arange(0, BLOCKS)[:, None, None, None] == tl.arange(0, BLOCKS)[None, None, :, None]
    return tl.reshape(tl.where(own, X[:, :, None, :], 0.0), (C, C))


@mimw.jit
def product(x, y):
    """x y of values that fp16 holds."""
    return tl.dot(x.to(tl.float16), y.to(tl.float16))


@mimw.jit
def inverse(A):
    """(I + A)^-1."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    one = tl.where(i == j, 1.0, 0.0)
    D = on_diagonal(blocks_inverse(A))
    E = product(D, tl.where((i // BLOCK > j // BLOCK) & (i // (2 * BLOCK) == j // (2 * BLOCK)), A, 0.0))
    D = product(one - E, D)
    E = product(D, tl.where(i // (2 * BLOCK) > j // (2 * BLOCK), A, 0.0))
    return product(product(one - E, one + product(E, E)), D)
