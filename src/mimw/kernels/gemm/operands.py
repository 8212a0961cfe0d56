"""Operands of a GEMM: the tiles of A and B that belong to a place and a chunk of K.

Input: descriptors. Output: a struct with one method, which starts the copies of one chunk. For example:

    operands = Operands(a_desc, b_desc, B_IS_NK)
    operands.copy(slot, place, k)                       the tiles of A and B from number k of K on
    chunk = load_along(inputs, chunk, operands, place, K, BK)       those of all of K; the number of the next chunk
"""

import triton.language as tl

import mimw
import mimw.tle as tle


@tle.struct
class Operands:
    """A as (M, K), B as (K, N), or as (N, K) where B_IS_NK."""
    a_desc: tl.tensor_descriptor
    b_desc: tl.tensor_descriptor
    B_IS_NK: tl.constexpr

    @mimw.jit
    def copy(self, slot, at, k):
        tle.gpu.copy(self.a_desc, slot.a, self.a_desc.block_shape, [at.m, k])
        tle.gpu.copy(self.b_desc, slot.b, self.b_desc.block_shape, [at.n, k] if self.B_IS_NK else [k, at.n])


@tle.struct
class ColumnsOfA(Operands):
    """A as (K, M): the transpose of a matrix whose rows are side by side, as the gradient of a weight has it."""

    @mimw.jit
    def copy(self, slot, at, k):
        tle.gpu.copy(self.a_desc, slot.a, self.a_desc.block_shape, [k, at.m])
        tle.gpu.copy(self.b_desc, slot.b, self.b_desc.block_shape, [at.n, k] if self.B_IS_NK else [k, at.n])


@tle.struct
class RowsOfSeveral(Operands):
    """A as (matrices, M, K), which have one B."""

    @mimw.jit
    def copy(self, slot, at, k):
        tle.gpu.copy(self.a_desc, slot.a, self.a_desc.block_shape, [at.matrix, at.m, k])
        tle.gpu.copy(self.b_desc, slot.b, self.b_desc.block_shape, [at.n, k] if self.B_IS_NK else [k, at.n])


@tle.struct
class Pairs(Operands):
    """A and B as a batch each, but one matrix for all where ONE_A, or ONE_B."""
    ONE_A: tl.constexpr
    ONE_B: tl.constexpr

    @mimw.jit
    def copy(self, slot, at, k):
        tle.gpu.copy(self.a_desc, slot.a, self.a_desc.block_shape, [0 if self.ONE_A else at.matrix, at.m, k])
        b = 0 if self.ONE_B else at.matrix
        tle.gpu.copy(self.b_desc, slot.b, self.b_desc.block_shape, [b, at.n, k] if self.B_IS_NK else [b, k, at.n])


@tle.struct
class GroupOperands(Operands):
    """A as (M, K), whose rows are in groups, with a B for each group."""

    @mimw.jit
    def copy(self, slot, at, k):
        tle.gpu.copy(self.a_desc, slot.a, self.a_desc.block_shape, [at.m, k])
        tle.gpu.copy(self.b_desc, slot.b, self.b_desc.block_shape, [at.group, at.n, k] if self.B_IS_NK else [at.group, k, at.n])


@mimw.jit
def load_along(inputs, chunk, operands, at, K, BK: tl.constexpr):
    """Tiles of A and B along K, as chunks from number `chunk` on; the number of the next one."""
    for k in range(0, K, BK):
        operands.copy(inputs.acquire(chunk), at, k)
        inputs.commit(chunk)
        chunk += 1
    return chunk
