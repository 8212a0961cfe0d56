"""C = A B on the matrix cores of AMD's chips, a tile a program.

Input: pointers of A, B and C, and nouns of a launch. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c)
    mfma_gemm[grid](*args, **meta)

The main loop is that of FORM (ping_pong.py, interleave.py); operands.py copies and reads, sums.py writes.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..gemm.epilogue import Epilogue
from ..gemm.tiles import Grid, Problem, output_tiles, tile_origin
from .interleave import interleave
from .operands import Held, operand
from .order import tile_of_xcd
from .ping_pong import ping_pong
from .sums import Output


@tle.struct
class Form(Grid):
    """The constants of a launch: tiles and their order; BK of K at a time; the main loop; fp8 at gfx950's WHOLE_RATE; operands; the
    layout of sums, of which a BLOCK is written at once; that N, K and the step of C are multiples of pieces; the epilogue."""
    BK: tl.constexpr
    XCDS: tl.constexpr
    PING_PONG: tl.constexpr
    WHOLE_RATE: tl.constexpr
    a: Held
    b: Held
    SUMS: tl.constexpr
    BLOCK: tl.constexpr
    N_PIECE: tl.constexpr
    K_PIECE: tl.constexpr
    C_PIECE: tl.constexpr
    EACH_ROW: tl.constexpr = False
    EACH_COLUMN: tl.constexpr = False
    ACTIVATION: tl.constexpr = None


@mimw.jit
def mfma_gemm(a, b, c, problem, steps, bias, row_scale, column_scale, alpha, FORM: tl.constexpr):
    """One tile of C = act(alpha row_scale column_scale A B + bias). K and the steps from row to row of A, B and C, (a, b, c), are
    counted in pieces: so the compiler knows which addresses are multiples of 16 bytes."""
    problem = Problem(problem.M, problem.N * FORM.N_PIECE, problem.K * FORM.K_PIECE)
    tile = tile_of_xcd(tl.program_id(0), output_tiles(problem.M, problem.N, FORM), FORM.XCDS)
    m, n = tile_origin(tile, problem.M, problem.N, FORM)
    m, n = tlx.assume_uniform(m), tlx.assume_uniform(n)
    left = operand(a, m, problem.M, problem.K, steps.a, FORM.a)
    right = operand(b, n, problem.N, problem.K, steps.b, FORM.b)
    out = Output(c, m, n, steps.c * FORM.C_PIECE, problem,
                 Epilogue(bias, row_scale, column_scale, alpha, None, FORM.EACH_ROW, FORM.EACH_COLUMN, FORM.ACTIVATION),
                 FORM.BLOCK)
    chunks = tl.cdiv(problem.K, FORM.BK)
    tl.assume(chunks > 0)
    if FORM.PING_PONG:
        upper, lower = ping_pong(left, right, chunks, FORM)
        out.store(upper, 0, 0)
        out.store(lower, FORM.BM // 2, 0)
    else:
        interleave(left, right, chunks, FORM).store(out, FORM.BM, FORM.BN)
