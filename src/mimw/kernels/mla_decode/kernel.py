"""MLA decoding for Hopper: attention of few queries of many heads on one latent cache, whose rows are key and value.

Input: descriptors of q, out and the cache's pages, the page table and the lengths as pointers, and sizes. Output: out and lse of
sequences that one group of programs reads alone; of the others partial sums in `room`, of which `combine` makes the rest:

    launches = arguments(q, cache, lengths, out, lse, room, programs, page_table)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Nouns: queries times heads of a sequence are rows, 64 of them a program. A group of programs has all rows of a sequence, and a share
of all keys (shares.py). `q` is one place for 64 rows of queries; `lefts` and `rights` are two places each for halves of a block of
64 keys, the right ones with its tail, of caches in e4m3 the left ones; `scores` is one place: by how much the sums so far shrink,
and last the sums, and beside it the probabilities. Roles, persistent: two consumers of four warps (attend.py), and who brings keys:
one warp by TMA (producer.py), or of caches in e4m3 four warps that convert left halves, and the second consumer, which converts
right ones (bytes.py).
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.items import item_pipe
from ..attention_decode.nouns import Caches, Problem, Scores
from .attend import left, right
from .bytes import Bytes, Rights, right_bytes
from .items import walk
from .nouns import Outputs
from .producer import Pages
from .queries import queries_of
from .rows import Cache


@tle.struct
class Nouns:
    """All that roles share: the problem, rules for scores, where results go, and the pipes and buffers."""

    problem: Any
    rules: Any
    outputs: Any
    items: Any
    q: Any
    lefts: Any
    rights: Any
    scores: Any
    probabilities: Any


@mimw.jit
def nouns_of(q_desc, lengths, outputs, k_scale, sizes, FORM: tl.constexpr):
    """The pipes and buffers of a launch."""
    TYPE: tl.constexpr = tlx.dtype_of(q_desc)
    HALF: tl.constexpr = FORM.DV // 2
    BN: tl.constexpr = FORM.BN
    problem = Problem(lengths, sizes.batches, 1, sizes.queries, sizes.capacity, None, sizes.splits, sizes.heads, sizes.heads, 1)
    tail = tle.gpu.alloc([2, BN, FORM.DT], TYPE)
    if FORM.CACHE == 0:
        lefts = tle.pipe(capacity=2, name="left halves", kv=tle.gpu.alloc([2, BN, HALF], TYPE))
        rights = tle.pipe(capacity=2, readers=("left", "right"), name="right halves", kv=tle.gpu.alloc([2, BN, HALF], TYPE),
                          tail=tail)
    else:
        lefts = tle.pipe(capacity=2, name="left halves", kv=tle.gpu.alloc([2, BN, HALF], TYPE), tail=tail)
        rights = tle.pipe(capacity=2, readers=("left", "right"), name="right halves", kv=tle.gpu.alloc([2, BN, HALF], TYPE))
    scores = tle.pipe(capacity=1, name="scores", row=tle.gpu.alloc([1, 64], tl.float32))
    return Nouns(problem, Scores(sizes.scale, None, k_scale), outputs, item_pipe(("left", "right")), queries_of(TYPE, FORM), lefts,
                 rights, scores, tle.gpu.alloc([64, BN], TYPE))


@mimw.jit
def mla_decode(q_desc, cache, table, lengths, out_desc, lse, room, sums_desc, sizes, FORM: tl.constexpr):
    """out (batches, queries, heads, DV) and lse (batches, heads, queries) of what one group reads whole, else parts of their sums.

    args:      cache   the descriptor of the cache's pages
               table   (batches, ..) int32, `sizes.table_row` apart, the pages of each sequence; None where FORM.PAGE is 0
               lengths (batches) int32
               room    fp32: 4 numbers of each sequence, which groups have parts of it; of each part (highest score in base 2, sum
                       of probabilities) of each row, then its sums of p V
               sums_desc   parts of sequences, (.., queries * heads, DV) fp32: their sums of p V
    """
    outputs = Outputs(out_desc, lse, room + sizes.batches * 4, sums_desc)
    on = nouns_of(q_desc, lengths, outputs, None, sizes, FORM)
    caches = Caches(cache, None, table, sizes.table_row, sizes.pages)
    # The second step may take the place of each program that ends; it waits for all of them before it reads their sums.
    tl.extra.cuda.gdc_launch_dependents()
    tle.gpu.warp_specialize([
        (left, (on.items.reader("left"), on.q, on.lefts.reader(), on.rights.reader("left"), on.scores.writer(), on.probabilities,
                outputs, on.rules, on.problem, FORM)),
        (right, (on.items.reader("right"), on.q, on.rights.reader("right"), on.scores.reader(), on.probabilities, outputs, on.rules,
                 on.problem, FORM)),
        (walk, (on.items.writer(), Pages(on.q, on.lefts.writer(), on.rights.writer(), q_desc, caches), room, on.problem, FORM)),
    ], [4, 1], [192, 56])


@mimw.jit
def mla_decode_bytes(q_desc, cache, table, lengths, out_desc, lse, room, sums_desc, k_scale, steps, sizes, FORM: tl.constexpr):
    """The same with caches of e4m3.

    args:      cache   its bytes, four at a time as int32, or where rows begin elsewhere than at multiples of 4 as e4m3
               k_scale fp32, one number that keys and values are multiplied by, or None
               steps   from page to page and from row to row, in units of FORM.UNIT bytes
    """
    outputs = Outputs(out_desc, lse, room + sizes.batches * 4, sums_desc)
    on = nouns_of(q_desc, lengths, outputs, k_scale, sizes, FORM)
    caches = Cache(cache, table, sizes.table_row, sizes.pages, steps)
    tl.extra.cuda.gdc_launch_dependents()
    tle.gpu.warp_specialize([
        (left, (on.items.reader("left"), on.q, on.lefts.reader(), on.rights.reader("left"), on.scores.writer(), on.probabilities,
                outputs, on.rules, on.problem, FORM)),
        (right_bytes, (on.items.reader("right"), on.q, Rights(on.rights.writer(), on.rights.reader("right"), caches),
                       on.scores.reader(), on.probabilities, outputs, on.rules, on.problem, FORM)),
        (walk, (on.items.writer(), Bytes(on.q, on.lefts.writer(), q_desc, caches), room, on.problem, FORM)),
    ], [4, 4], [200, 88])
