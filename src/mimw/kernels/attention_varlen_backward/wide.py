"""dK and dV of packed sequences, heads of more than 128, on Hopper: ../wide_attention_backward, for tiles from the list of them.

Input: descriptors of Q, K, V, dO, dK and dV that end with a sequence, those of each query's numbers, and the list of tiles. Output:
dK and dV are written. For example:

    kernel, grid, args, meta = launches(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, work, 500, 500)[1]     of heads of 256
    packed_wide_key_gradients[grid](*args, **meta)

Nouns and roles are ../wide_attention_backward's; `load` is kernel.py's. What lies behind a sequence is kept out as there.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.buffers import memory_of_keys
from ..attention_backward.nouns import Operands, Problem, Rules
from ..attention_varlen.maps import place
from ..wide_attention_backward.kernel import gradients, side_of
from .kernel import load
from .tiles import is_one, sizes, tile_of


@mimw.jit
def compute(side, desc, factor_of_sum, tiles, rules, problem, me: tl.constexpr, COLUMNS: tl.constexpr, form):
    """The sums of consumer `me`, to memory as far as the sequence reaches."""
    tile = tile_of(tiles)
    if is_one(tile):
        head = tl.program_id(1)
        at = tile.sequence, head, tile.start
        sums = gradients(side, factor_of_sum, at, rules, sizes(tile, problem), me, COLUMNS, form)
        again = tile_of(tiles)      # in the loop there is no register for it
        tlx.async_descriptor_store(desc, sums, place(again.k_start, again.k_length, head, again.start))
        tlx.async_descriptor_store_wait(0)


@mimw.jit
def packed_wide_key_gradients(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, dk_desc, dv_desc, tiles, scale, log2_scale,
                              heads, zero, left, right, inner, alibi, alibi_step, FORM: tl.constexpr):
    """dK (total_k, heads // GROUP, up to FORM.form.D), dV (the same, up to FORM.DV): columns of tiles that the tensors lack are
    read as 0.

    args:      tiles       of keys, the program's own at program_id(0): tiles.py
               zero, scale, log2_scale, left, right, inner, alibi, alibi_step, FORM   ../attention_backward's
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem = Problem(heads, None, None, left, right, zero)
    rules = Rules(scale, log2_scale, inner, alibi, alibi_step)
    form = FORM.form
    memory = memory_of_keys(form, FORM.DV, 2, FORM.Q_STAGES, FORM.DO_STAGES, DTYPE)
    weights = tle.pipe(capacity=2, name="weights", tile=tle.gpu.alloc([2, form.BN, form.BM], DTYPE))

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            if me == 0:
                compute(side_of(memory, weights, me), dv_desc, 1.0, tiles, rules, problem, me, FORM.DV, form)
            else:
                compute(side_of(memory, weights, me), dk_desc, scale, tiles, rules, problem, me, form.D, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            of = Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc)
            load(memory, of, tiles, problem, form)
