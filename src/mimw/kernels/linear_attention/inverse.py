"""The inverse of a unit lower triangular matrix of 64 rows.

Input: A, the part below the diagonal, fp32, zeros elsewhere. Output: (I + A)^-1, fp32. For example:

    T = inverse(A) * beta[None, :]

Four blocks of 16 on the diagonal are inverted by forward substitution in fp32: their powers may be large though their inverse is
not (keys that are alike), so no series of powers is summed there. With D, the inverses of these blocks, D (I + A) is I + E, where E
has blocks below the diagonal only, so E^4 = 0 and (I + A)^-1 = (I - E) (I + E^2) D.
"""

import triton.language as tl

import mimw

from .nouns import C

BLOCK = tl.constexpr(16)
BLOCKS = tl.constexpr(4)


@mimw.jit
def blocks_inverse(A):
    """The inverses of I + A's blocks of 16 on the diagonal, as a (4, 16, 16) tile."""
    parts = tl.reshape(A, (BLOCKS, BLOCK, BLOCKS, BLOCK))
    own = tl.arange(0, BLOCKS)[:, None, None, None] == tl.arange(0, BLOCKS)[None, None, :, None]
    L = tl.sum(tl.where(own, parts, 0.0), 2)
    i, j = tl.arange(0, BLOCK)[None, :, None], tl.arange(0, BLOCK)[None, None, :]
    X = tl.where(i == j, 1.0, 0.0) + tl.zeros((BLOCKS, BLOCK, BLOCK), tl.float32)
    for step in range(BLOCK - 1):
        column = tl.sum(tl.where(j == step, L, 0.0), 2)     # of L: zero in the rows up to `step`
        row = tl.sum(tl.where(i == step, X, 0.0), 1)        # of X: final
        X -= column[:, :, None] * row[:, None, :]
    return X


@mimw.jit
def on_diagonal(X):
    """The (4, 16, 16) tile as blocks on the diagonal of a (64, 64) one."""
    own = tl.arange(0, BLOCKS)[:, None, None, None] == tl.arange(0, BLOCKS)[None, None, :, None]
    return tl.reshape(tl.where(own, X[:, :, None, :], 0.0), (C, C))


@mimw.jit
def inverse(A, PRECISION: tl.constexpr):
    """(I + A)^-1."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    D = on_diagonal(blocks_inverse(A))
    E = tl.dot(D, tl.where(i // BLOCK > j // BLOCK, A, 0.0), input_precision=PRECISION)
    more = tl.dot(E, E, input_precision=PRECISION)
    one = tl.where(i == j, 1.0, 0.0)
    return tl.dot(tl.dot(one - E, one + more, input_precision=PRECISION), D, input_precision=PRECISION)
