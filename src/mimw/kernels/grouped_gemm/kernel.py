"""A product for each group of rows on Hopper: `C[rows of g] = A[rows of g] B[g]`, whose sizes only the device knows.

Input: descriptors of A, B and C, the row behind the last one of each group, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, ends, programs)
    grouped_gemm[grid](*args, **meta)

Nouns and roles are the GEMM's, and so are both schedules. The grid is persistent: tile t of all tiles, counted group by group,
belongs to program t modulo their number, and every role walks through the groups to find where its tiles lie (gemm/groups.py).
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..consumers import consumer
from ..gemm.groups import Groups, compute_groups, load_groups
from ..gemm.operands import GroupOperands
from ..gemm.output import output
from ..gemm.roles import input_pipe
from ..gemm.tiles import part_of


@mimw.jit
def grouped_gemm(a_desc, b_desc, c_desc, ends, groups, N, K, FORM: tl.constexpr):
    """C = A B[group] of rows in groups, with B as (groups, K, N), or as (groups, N, K) where B_IS_NK; `ends` is (groups, )."""
    tiles = FORM.tiles
    operands, rows = GroupOperands(a_desc, b_desc, tiles.B_IS_NK), Groups(ends, groups, N, tiles)
    inputs = input_pipe(operands, tiles, FORM.STAGES)
    out = output(c_desc, tiles)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute_groups(inputs.reader(consumer(me)), rows, out, part_of(tiles, me), K)
        with tlx.async_task(num_warps=FORM.LOAD_WARPS, num_regs=24):  # producer
            load_groups(inputs.writer(), rows, operands, K)
