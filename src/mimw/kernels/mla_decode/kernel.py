"""MLA decoding for Hopper: attention of few queries of many heads on one latent cache, whose rows are key and value.

Input: descriptors of q, out and the cache's pages, the page table and the lengths as pointers, and sizes. Output: out and lse of
sequences that one group of programs reads alone; of the others partial sums in `room`, of which `combine` makes the rest:

    launches = arguments(q, cache, lengths, out, lse, room, programs, page_table)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Nouns: queries times heads of a sequence are rows, 64 of them a program. A group of programs has all rows of a sequence, and a share
of all keys (shares.py). `q` is one place for 64 rows of queries; `lefts` and `rights` are two places each for halves of a block of
64 keys, the right ones with its tail; `scores` is one place: by how much the sums so far shrink, and last the sums, and beside it
the probabilities. Roles, persistent: two consumers of four warps (attend.py), and who brings keys: one warp by TMA (producer.py), or
of caches in e4m3 two times four warps that convert them (bytes.py).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.items import item_pipe
from ..attention_decode.nouns import Caches, Problem, Scores
from .attend import left, right
from .nouns import Outputs
from .producer import load
from .queries import queries_of


@mimw.jit
def mla_decode(q_desc, cache, table, lengths, out_desc, lse, room, sums_desc, k_scale, sizes, FORM: tl.constexpr):
    """out (batches, queries, heads, DV) and lse (batches, heads, queries) of what one group reads whole, else parts of their sums.

    args:      cache   the descriptor of the cache's pages
               table   (batches, ..) int32, `sizes.table_row` apart, the pages of each sequence; None where FORM.PAGE is 0
               lengths (batches) int32
               room    fp32: 4 numbers of each sequence, which groups have parts of it; of each part (highest score in base 2, sum
                       of probabilities) of each row
               sums_desc   parts of sequences, (.., queries * heads, DV) fp32: their sums of p V
               k_scale fp32, one number that keys and values are multiplied by, or None
    """
    TYPE: tl.constexpr = tlx.dtype_of(q_desc)
    HALF: tl.constexpr = FORM.DV // 2
    BN: tl.constexpr = FORM.BN
    problem = Problem(lengths, sizes.batches, 1, sizes.queries, sizes.capacity, None, sizes.splits, sizes.heads, sizes.heads, 1)
    outputs = Outputs(out_desc, lse, room + sizes.batches * 4, sums_desc)
    rules = Scores(sizes.scale, None, k_scale)
    items = item_pipe(("left", "right"))
    q = queries_of(TYPE, FORM)
    lefts = tle.pipe(capacity=2, name="left halves", kv=tle.gpu.alloc([2, BN, HALF], TYPE))
    rights = tle.pipe(capacity=2, readers=("left", "right"), name="right halves", kv=tle.gpu.alloc([2, BN, HALF], TYPE),
                      tail=tle.gpu.alloc([2, BN, FORM.DT], TYPE))
    scores = tle.pipe(capacity=1, name="scores", row=tle.gpu.alloc([1, 64], tl.float32))
    probabilities = tle.gpu.alloc([64, BN], TYPE)

    # The second step may take the place of each program that ends; it waits for all of them before it reads their sums.
    tl.extra.cuda.gdc_launch_dependents()
    tle.gpu.warp_specialize([
        (left, (items.reader("left"), q, lefts.reader(), rights.reader("left"), scores.writer(), probabilities,
                outputs, rules, problem, FORM)),
        (right, (items.reader("right"), q, rights.reader("right"), scores.reader(), probabilities, outputs, rules,
                 problem, FORM)),
        (load, (items.writer(), q, lefts.writer(), rights.writer(), q_desc, Caches(cache, None, table, sizes.table_row,
                                                                                            sizes.pages), room, problem, FORM)),
    ], [4, 1], [192, 56])
