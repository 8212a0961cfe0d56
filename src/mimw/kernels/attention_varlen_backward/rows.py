"""What comes before and after the products of packed sequences: the list of tiles, numbers for each query, sums of 0; dQ.

Input: O, dO and the log-sum-exps of the forward kernel, and where the sequences begin. Output: what kernel.py reads, dQ, and zeros
in rows of gradients that are in no sequence. For example:

    before[grid](Given(o, do, lse, None), rows, sums, ...)      delta, lse in base 2, sums of 0, tiles
    after[grid](sums, dq, starts, ...)                          dq = scale * sums, in dq's type

The numbers and sums of a sequence begin with a block of their own (tiles.first_block), in arrays that have room for that. So no
block holds queries of two sequences, and whatever is read of a block behind its sequence is ours to say: a log-sum-exp of infinity.
"""

import triton.language as tl

import mimw

from ..attention_backward.rows import LOG2_E
from ..attention_backward.sums import tile_of
from .tiles import list_sequence, sequence_of


@mimw.jit
def block_of(cu_q, sequences, BM: tl.constexpr, TOGETHER: tl.constexpr):
    """(block, head, where the sequence of the block begins, how many queries it has, the first of them in the block), from the last
    head on."""
    block, head = tl.program_id(0), (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    sequence = sequence_of(block, cu_q, sequences, BM, TOGETHER)
    start = tl.load(cu_q + sequence)
    return block, head, start, tl.load(cu_q + sequence + 1) - start, (block - (start // BM + sequence)) * BM


@mimw.jit
def clear(x, steps, begin, end, D: tl.constexpr, COLUMNS: tl.constexpr):
    """Zeros in the rows of program_id(1)'s head from `begin` up to `end`, by all programs of the head."""
    columns = tl.arange(0, COLUMNS)[None, :]
    for first in range(begin + tl.program_id(0) * 64, end, tl.num_programs(0) * 64):
        rows = (first + tl.arange(0, 64)).to(tl.int64)[:, None]
        tl.store(x + tl.program_id(1).to(tl.int64) * steps.head + rows * steps.row + columns,
                 tl.zeros((64, COLUMNS), x.dtype.element_ty), mask=(rows < end) & (columns < D))


@mimw.jit(do_not_specialize=["counts"])     # one binary for all
def before(given, rows, sums, gradients, tiles, starts, steps, heads, counts, FORM: tl.constexpr):
    """Of BM queries of a head: rows[0] = log2(e) lse, rows[1] = delta - dlse, sums = 0; of a sequence the tiles, BN keys each, by
    one head. Queries beyond the end, or that see no key, get lse = inf, with which all their probabilities are 0. Where dQ is made
    in one order there are no sums, but tiles of so many QUERIES, and rows of dq in no sequence are cleared here."""
    BM: tl.constexpr = FORM.BM
    block, head, start, length, first = block_of(starts.queries, counts.sequences, BM, FORM.TOGETHER)
    if (tl.program_id(1) == 0) & (block < counts.sequences):
        list_sequence(tiles.keys, block, starts.queries, starts.keys, counts.sequences, counts.key_tiles, BM, FORM.BN,
                      FORM.TOGETHER, False)
        if tiles.queries is not None:
            list_sequence(tiles.queries, block, starts.queries, starts.keys, counts.sequences, counts.query_tiles, BM,
                          FORM.QUERIES, FORM.TOGETHER, True)
    if tl.program_id(1) < heads.keys:
        end = tl.load(starts.keys + counts.sequences)
        clear(gradients.k, steps.dk, end, counts.keys, FORM.D, FORM.COLUMNS)
        clear(gradients.v, steps.dv, end, counts.keys, FORM.DV, FORM.DV_COLUMNS)
    if tiles.queries is not None:
        clear(gradients.q, steps.dq, tl.load(starts.queries + counts.sequences), counts.queries, FORM.D, FORM.COLUMNS)
    queries = first + tl.arange(0, BM)
    columns = tl.arange(0, FORM.DV_COLUMNS)[None, :]
    there = queries < length
    inside = there[:, None] & (columns < FORM.DV)
    at = (start + queries).to(tl.int64)
    out = tl.load(given.o + head * steps.o.head + at[:, None] * steps.o.row + columns, mask=inside, other=0.0)
    slope = tl.load(given.do + head * steps.do.head + at[:, None] * steps.do.row + columns, mask=inside, other=0.0)
    delta = tl.sum(out.to(tl.float32) * slope.to(tl.float32), 1)
    if given.dlse is not None:
        delta -= tl.load(given.dlse + head * counts.queries + at, mask=there, other=0.0)
    number = tl.load(given.lse + head * counts.queries + at, mask=there, other=float("inf")) * LOG2_E
    number = tl.where(number == float("-inf"), float("inf"), number)
    padded = tl.num_programs(0).to(tl.int64) * BM
    row = head * padded + block * BM
    tl.store(rows + row + tl.arange(0, BM), number)
    tl.store(rows + heads.queries * padded + row + tl.arange(0, BM), delta)
    if sums is not None:
        if first < length:
            elements = tl.arange(0, BM * FORM.COLUMNS)
            tl.store(sums + row * FORM.COLUMNS + elements, tl.zeros((BM * FORM.COLUMNS, ), tl.float32))


@mimw.jit(do_not_specialize=["counts"])
def after(sums, dq, starts, scale, steps, counts, FORM: tl.constexpr):
    """dq = scale * sums for BM queries of a head, and 0 in rows that are in no sequence."""
    BM: tl.constexpr = FORM.BM
    COLUMNS: tl.constexpr = FORM.COLUMNS
    SHARE_COLUMNS: tl.constexpr = FORM.SHARE_COLUMNS
    SIZE: tl.constexpr = 64 * SHARE_COLUMNS
    block, head, begin, length, first = block_of(starts.queries, counts.sequences, BM, FORM.TOGETHER)
    clear(dq, steps, tl.load(starts.queries + counts.sequences), counts.queries, FORM.D, COLUMNS)
    if first < length:
        start = sums + (head * tl.num_programs(0) + block) * (BM * COLUMNS)
        for number in tl.static_range(BM * COLUMNS // SIZE):
            tile = tile_of(tl.load(start + number * SIZE + tl.arange(0, SIZE)), SHARE_COLUMNS)
            queries = (first + (number * 64 if SHARE_COLUMNS == COLUMNS else 0) + tl.arange(0, 64))[:, None]
            columns = ((0 if SHARE_COLUMNS == COLUMNS else number * SHARE_COLUMNS) + tl.arange(0, SHARE_COLUMNS))[None, :]
            at = head * steps.head + (begin + queries).to(tl.int64) * steps.row + columns
            tl.store(dq + at, (tile * scale).to(dq.dtype.element_ty), mask=(queries < length) & (columns < FORM.D))
