"""dK, dV and the shares of dQ of heads of 136 to 192, values of up to 128, on Hopper, with five products: a program owns 128 keys.

Input: descriptors of Q, K, V and dO, of each query's log-sum-exp and delta (../attention_backward/rows.py), and the sizes. Output:
dK and dV are written, dQ is added to fp32 sums as by ../attention_backward. For example:

    kernel, grid, args, meta = launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums=sums)[1]
    wide_gradients[grid](*args, **meta)

Nouns: keys, values, queries, slopes, ds and shares as there, K and Q in halves (halves.py). Roles: `load`, two times `compute`,
`store`. Two consumers with 64 keys each have 160 of their 240 registers for dK and dV.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention_backward.nouns import Operands, of_launch
from .compute import compute
from .halves import CONSUMERS, load, memory_of_halves
from .shares import store


@mimw.jit
def wide_gradients(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, sums_desc, dk_desc, dv_desc, measures, changes,
                   FORM: tl.constexpr, MOD: tl.constexpr = None):
    """dK (batches, heads // GROUP, seq_k, up to 192), dV (the same, up to DV), and dQ added to the sums.

    args:      measures, changes, FORM, MOD     ../attention_backward's
    """
    form = FORM.form
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem, rules = of_launch(measures, changes, MOD)
    memory = memory_of_halves(FORM, DTYPE)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(memory, dk_desc, dv_desc, rules, problem, me, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(memory, Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc), problem, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # writer of dQ
            store(memory.shares, sums_desc, problem, form)
