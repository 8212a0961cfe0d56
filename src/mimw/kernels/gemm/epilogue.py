"""What a GEMM does to its sums before it stores them: scales, bias, residual, activation; each a choice made when compiling.

Input: a piece of fp32 sums in registers, and what belongs to its rows and columns. Output: the piece to be stored. For example:

    epilogue = Epilogue(bias, row_scale, column_scale, alpha, beta, ...)      None for what there is not: no code at all
    y = finished(sums, epilogue, m, n, problem)                               alpha row[m] column[n] sums + bias[n]
    y = activated(y + beta * residual, epilogue.ACTIVATION)

A residual is a matrix like C. A warp of its own loads the pieces into the very tiles from which C is stored: the pipe `residual`,
of which each consumer has every CONSUMERS-th chunk and slot. A consumer adds its sums to what it finds there, stores from there,
and gives the tile back when TMA has read it. So a residual takes no shared memory of its own, comes while the product is computed,
and a piece that waits for its tile holds up no other load.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .pieces import begin, count

SQRT_HALF = tl.constexpr(0.7071067811865476)
TWICE_SQRT_2_PI = tl.constexpr(1.5957691216057308)      # 2 sqrt(2 / pi)


@tle.struct
class Epilogue:
    """act(alpha row_scale column_scale sums + bias + beta residual), None for what there is not; a scale that is not for each row,
    or column, is one number in memory."""
    bias: tl.tensor | None
    row_scale: tl.tensor | None
    column_scale: tl.tensor | None
    alpha: Any
    beta: Any
    EACH_ROW: tl.constexpr
    EACH_COLUMN: tl.constexpr
    ACTIVATION: tl.constexpr


@mimw.jit
def activated(x, ACTIVATION: tl.constexpr):
    """relu, gelu (by erf), gelu_tanh or silu of fp32 numbers; None leaves them."""
    tl.static_assert(ACTIVATION is None or ACTIVATION == "relu" or ACTIVATION == "gelu" or ACTIVATION == "gelu_tanh"
                     or ACTIVATION == "silu")
    if ACTIVATION == "relu":
        return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif ACTIVATION == "gelu":
        return 0.5 * x * (1.0 + tl.erf(x * SQRT_HALF))
    elif ACTIVATION == "gelu_tanh":     # 1 + tanh(u) = 2 sigmoid(2u)
        return x / (1.0 + tl.exp(-TWICE_SQRT_2_PI * (x + 0.044715 * x * x * x)))
    elif ACTIVATION == "silu":
        return x / (1.0 + tl.exp(-x))
    else:
        return x


@mimw.jit
def numbers(pointer, at, extent, EACH: tl.constexpr):
    """The numbers at these places in fp32, or one for all unless there is one for EACH; None for no pointer."""
    if pointer is None:
        return None
    if EACH:
        return tl.load(pointer + at, mask=at < extent, other=0.0).to(tl.float32)
    return tl.load(pointer)


@mimw.jit
def finished(sums, epilogue, m, n, problem):
    """alpha row_scale[m] column_scale[n] sums + bias[n], for sums of the rows from m and the columns from n on."""
    rows, columns = m + tl.arange(0, sums.shape[0]), n + tl.arange(0, sums.shape[1])
    if epilogue.row_scale is not None:
        scale = numbers(epilogue.row_scale, rows, problem.M, epilogue.EACH_ROW)
        sums *= scale[:, None] if epilogue.EACH_ROW else scale
    if epilogue.column_scale is not None:
        scale = numbers(epilogue.column_scale, columns, problem.N, epilogue.EACH_COLUMN)
        sums *= scale[None, :] if epilogue.EACH_COLUMN else scale
    if epilogue.alpha is not None:
        sums *= epilogue.alpha
    if epilogue.bias is not None:
        sums += numbers(epilogue.bias, columns, problem.N, True)[None, :]
    return sums


@mimw.jit
def plus_residual(sums, tile, beta):
    """sums + beta tile, in fp32."""
    more = tlx.local_load(tile).to(tl.float32)
    if beta is not None:
        more *= beta
    return sums + more


@mimw.jit
def load_residual(residual, residual_desc, source):
    """The residual's pieces for the consumers of one output tile of this program after the other."""
    TURNS: tl.constexpr = source.tiles.turns()
    turn = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        at = source.at(tile)
        number = turn // TURNS * (count(source.tiles.PIECES) * source.tiles.CONSUMERS) + turn % TURNS
        load_pieces(residual, residual_desc, number, at, source.tiles)
        turn += 1


@mimw.jit
def load_pieces(residual, residual_desc, number, at, tiles):
    """The pieces of an output tile's residual, for each of the consumers that share it; `number` is the first one's. All are as
    wide as the widest: what a narrower one has too much is not looked at."""
    for piece in tl.static_range(count(tiles.PIECES)):
        for sharer in tl.static_range(tiles.sharers()):
            chunk = number + piece * tiles.CONSUMERS + sharer
            tle.gpu.copy(residual_desc, residual.acquire(chunk).tile, residual_desc.block_shape,
                         at.moved(sharer * tiles.rows()).box(begin(tiles.PIECES, piece, tiles.BN)))
            residual.commit(chunk)
