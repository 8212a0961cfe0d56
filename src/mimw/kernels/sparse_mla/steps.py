"""Steps that the forms of the kernel share: gathered rows into a buffer, one step of softmax, the results out.

Input: tiles in registers or buffers. Output: tiles, or filled buffers. A tile of BK listed rows of KV has the DV columns that are
both key and value, or a half of them, or the tail, which is key only:

    row = across(listed(work, first, form), form, form.DT)
    gather(slot.tail, row, work, form.DV); landed()
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

NO_LOGIT = tl.constexpr(-1e30)  # a maximum before any: finite, so that 2^(it - it) is 1 and rows without entries give zeros


@mimw.jit
def at(buffer):
    """The tile in a buffer; a product reads it there."""
    return tl.load(tle.gpu.local_ptr(buffer))


@mimw.jit
def across(row, form, columns: tl.constexpr):
    """Listed rows as a (BK, columns) tile: for a `gather` that follows, each thread has those that it brings."""
    return tl.broadcast_to(row[:, None], (form.BK, columns))


@mimw.jit
def gather(buffer, row, work, column: tl.constexpr):
    """Start to fill a (BK, N) buffer with columns column .. column + N of the rows in a (BK, N) tile, by cp.async, which needs no
    registers, so that whole tiles are under way; rows that do not count become zeros: a row that no list names may hold NaN, and
    0 * NaN is NaN. `landed` waits."""
    part = column + tl.arange(0, buffer.shape[1])[None, :]
    tlx.async_load(work.kv + row.to(tl.int64) * work.stride + part, buffer, mask=row >= 0, other=0.0, eviction_policy="evict_last")


@mimw.jit
def landed():
    """Wait for all that `gather` has started, so that it can be committed."""
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)


@mimw.jit
def masked(logits, valid):
    """Logits of the columns that count, -inf for the others."""
    return tl.where((valid != 0)[None, :], logits, float("-inf"))


@mimw.jit
def powers(logits, most, scale):
    """2^((logits - most) * scale)."""
    return tl.exp2(logits * scale - (most * scale)[:, None])


@mimw.jit
def grown(logits, most, scale):
    """(the maxima with those of `logits`, by how much what was summed before shrinks)."""
    most, before = tl.maximum(most, tl.max(logits, 1)), most
    return most, tl.exp2((before - most) * scale)


@mimw.jit
def store_half(acc, total, buffer, out_desc, row, column: tl.constexpr):
    """out[row .., column ..] = acc / total by TMA through `buffer`; rows with nothing in them are 0."""
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(tle.gpu.local_ptr(buffer), out.to(buffer.dtype))
    tle.gpu.copy(buffer, out_desc, [buffer.shape[0], buffer.shape[1]], [row, column])


@mimw.jit
def store_lse(lse, row, most, total, scale, form):
    """The logarithm of each row's sum of exponentials: natural, or to base 2; +inf for rows with nothing in them."""
    value = most * scale + tl.log2(total)
    if not form.BASE_2:
        value = value * 0.6931471805599453
    tl.store(lse + row + tl.arange(0, most.shape[0]), tl.where(total == 0.0, float("inf"), value))
