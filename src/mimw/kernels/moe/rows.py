"""What goes before and behind the products of a mixture of experts: rows of tokens to their places, and back, weighted and summed.

Input: rows, and the place of each of a token's TOP_K rows among those sorted by expert. Output: rows are written. For example:

    spread[grid](x, places, rows, ...)              rows[places[t, j]] = x[t]
    spread_few[grid](x, ids, rows, ...)             the same of few tokens, whose places it finds itself
    quantise[grid](x, places, rows, scales, ...)    the same in fp8, with a scale for each 128 numbers
    combine[grid](rows, places, weights, out, ...)  out[t] = sum over j of weights[t, j] rows[places[t, j]], in the order of j

All are plain Triton: a program has BLOCK columns of one token. Padding between the experts' rows is neither written nor read.
`combine`, and the launch behind `spread_few`, may begin before the one ahead has ended, which they wait for (`launch_pdl`).
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def clear(counter_ptr):
    """The counter that tiles are stolen from, if there is one, becomes 0."""
    if counter_ptr is not None:
        if tl.program_id(0) + tl.program_id(1) == 0:
            tl.store(counter_ptr, 0)


@mimw.jit
def spread(x_ptr, places_ptr, rows_ptr, counter_ptr, WIDTH, x_row, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    """Each token's row is read once, and written for each of its experts."""
    clear(counter_ptr)
    token, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(x_ptr + token * x_row + at, mask=at < WIDTH)
    for j in tl.static_range(TOP_K):
        place = tl.load(places_ptr + token * TOP_K + j).to(tl.int64)
        tl.store(rows_ptr + place * WIDTH + at, row, mask=at < WIDTH)


@mimw.jit
def in_fp8(row, TYPE: tl.constexpr):
    """(rows of 128 numbers in fp8, their scales): the largest of each becomes the largest of the type. Both are rounded as
    by torch: divisions that are 2 ulp off put numbers between two of fp8 on the other side."""
    LARGEST: tl.constexpr = 448.0 if TYPE == tl.float8e4nv else 57344.0
    row = row.to(tl.float32)
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(row), 1), 1e-12), LARGEST)
    return tl.div_rn(row, tl.broadcast_to(scale[:, None], row.shape)).to(TYPE), scale


@mimw.jit
def spread_few(x_ptr, ids_ptr, rows_ptr, scales_ptr, places_ptr, experts_ptr, total_ptr, counter_ptr, numel, WIDTH, steps,
               FORM: tl.constexpr):
    """`spread`, or `quantise` where there are scales, and what moe_align says of blocks of BS rows, but for the sorted list. Each
    program counts all the numel slots, at most SLOTS, by expert, and those in front of its own token's: a launch less, and nobody
    waits for another program."""
    BLOCK: tl.constexpr = FORM.BLOCK
    BS: tl.constexpr = FORM.BS
    TOP_K: tl.constexpr = FORM.TOP_K
    BINS: tl.constexpr = triton.next_power_of_2(FORM.E)
    tl.extra.cuda.gdc_launch_dependents()
    clear(counter_ptr)
    token, step = tl.program_id(0).to(tl.int64), tl.program_id(1) * (BLOCK // 128) + tl.arange(0, BLOCK // 128)
    at = step[:, None] * 128 + tl.arange(0, 128)[None, :]
    row = tl.load(x_ptr + token * steps.x + at, mask=at < WIDTH, other=0.0)
    if scales_ptr is not None:
        row, scale = in_fp8(row, tlx.dtype_of(rows_ptr))
    slots, expert = tl.arange(0, FORM.SLOTS), tl.arange(0, BINS)
    ids = tl.load(ids_ptr + slots, mask=slots < numel, other=0).to(tl.int32)
    padded = tl.cdiv(tl.histogram(ids, BINS, mask=slots < numel), BS) * BS
    starts = tl.cumsum(padded) - padded
    j = tl.arange(0, triton.next_power_of_2(TOP_K))
    slot = tl.program_id(0) * TOP_K + j
    mine = tl.load(ids_ptr + slot, mask=j < TOP_K, other=-1).to(tl.int32)
    before = (ids[None, :] == mine[:, None]) & (slots[None, :] < slot[:, None])
    place = tl.sum(tl.where(expert[None, :] == mine[:, None], starts[None, :], 0), 1) + tl.sum(before.to(tl.int32), 1)
    wide, real = place.to(tl.int64)[:, None, None], (j < TOP_K)[:, None, None]
    row = tl.broadcast_to(row[None, :, :], [j.shape[0], row.shape[0], 128])
    tl.store(rows_ptr + wide * WIDTH + at[None, :, :], row, mask=real & (at < WIDTH)[None, :, :])
    if scales_ptr is not None:
        scale = tl.broadcast_to(scale[None, :], [j.shape[0], scale.shape[0]])
        inside = (j < TOP_K)[:, None] & (step * 128 < WIDTH)[None, :]
        tl.store(scales_ptr + step.to(tl.int64)[None, :] * steps.scales + place[:, None], scale, mask=inside)
    if tl.program_id(1) == 0:
        tl.store(places_ptr + slot, place, mask=j < TOP_K)
        tl.store(experts_ptr + place // BS, mine, mask=(j < TOP_K) & (place % BS == 0))
    if tl.program_id(0) + tl.program_id(1) == 0:
        tl.store(total_ptr, tl.sum(padded))


@mimw.jit
def combine(rows_ptr, places_ptr, weights_ptr, out_ptr, WIDTH, weights_row, weights_step, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    """Sums in fp32, in one order: the result is the same, to the bit, every time."""
    tl.extra.cuda.gdc_wait()
    token, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.float32)
    for j in tl.static_range(TOP_K):
        place = tl.load(places_ptr + token * TOP_K + j).to(tl.int64)
        weight = tl.load(weights_ptr + token * weights_row + j * weights_step).to(tl.float32)
        sums += weight * tl.load(rows_ptr + place * WIDTH + at, mask=at < WIDTH, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * WIDTH + at, sums.to(tlx.dtype_of(out_ptr)), mask=at < WIDTH)


@mimw.jit
def quantise(x_ptr, places_ptr, rows_ptr, scales_ptr, WIDTH, x_row, next_step, TOP_K: tl.constexpr, IN_PLACE: tl.constexpr,
             BLOCK: tl.constexpr):
    """`spread` into fp8, with the scale of each 128 numbers of row r at scales[step next_step + r]. IN_PLACE: row r becomes row r,
    of those that are some token's; TOP_K is 1."""
    token = tl.program_id(0).to(tl.int64)
    step = tl.program_id(1) * (BLOCK // 128) + tl.arange(0, BLOCK // 128)
    at = step[:, None] * 128 + tl.arange(0, 128)[None, :]
    source = tl.load(places_ptr + token).to(tl.int64) if IN_PLACE else token
    row, scale = in_fp8(tl.load(x_ptr + source * x_row + at, mask=at < WIDTH, other=0.0), tlx.dtype_of(rows_ptr))
    for j in tl.static_range(TOP_K):
        place = tl.load(places_ptr + token * TOP_K + j).to(tl.int64)
        tl.store(rows_ptr + place * WIDTH + at, row, mask=at < WIDTH)
        tl.store(scales_ptr + step.to(tl.int64) * next_step + place, scale, mask=step * 128 < WIDTH)
