"""`C[i] = A[i] B[i]` for a batch of matrices on Hopper: the GEMM over tiles of three dimensions.

Input: descriptors of A, B and C, the batch's length and the matrices' sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, programs)
    batched_gemm[grid](*args, **meta)

Roles and schedules are the GEMM's. Tiles are counted matrix by matrix, each in the GEMM's order, so programs work on few matrices
at a time. A tile that sticks out of its matrix does not reach the next one: TMA knows three extents.
"""

import triton.language as tl

import mimw

from ..gemm.operands import Pairs
from ..gemm.output import output
from ..gemm.roles import input_pipe, run_roles
from ..gemm.sources import Batch
from ..gemm.tiles import Problem


@mimw.jit
def batched_gemm(a_desc, b_desc, c_desc, batch, M, N, K, counter, FORM: tl.constexpr, ONE_A: tl.constexpr, ONE_B: tl.constexpr):
    """C[i] = A[i] B[i] for i < batch, with B as (batch, K, N), or as (batch, N, K) where B_IS_NK; ONE_A: A[0] for every i.
    With a `counter`, an int32 that is 0 before and after a launch, programs steal tiles (stolen.py)."""
    tiles = FORM.tiles
    operands = Pairs(a_desc, b_desc, tiles.B_IS_NK, ONE_A, ONE_B)
    inputs = input_pipe(operands, tiles, FORM.STAGES)
    run_roles(inputs, Batch(Problem(M, N, K), tiles, batch), operands, output(c_desc, tiles), counter)
