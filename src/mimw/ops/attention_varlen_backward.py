"""`mimw::attention_varlen_backward`: the gradients of `mimw.ops.attention_varlen`, on the library's kernels for Hopper, else by
plain Triton kernels.

Input: the gradients of o and, where it was used, of lse; what the call took and gave. Output: the gradients of q, k, v and sinks,
the last empty without sinks:

    torch.ops.mimw.attention_varlen_backward(do, q, k, v, o, lse, cu_q, cu_k, None, None, None, 500, 500, True)

`backward()` through `mimw.ops.attention_varlen` comes here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import e, log2

import torch
from torch import Tensor

from mimw.kernels import attention_varlen_backward as hopper
from mimw.kernels import plain_attention_backward as plain
from mimw.kernels.attention_backward.configs import HEAD_DIMS
from mimw.kernels.attention_varlen import FAR, LONGEST_WITH_SLOPES
from mimw.kernels.wide_attention_backward import WIDEST

from .attention_backward import floats, of_sinks, one_order
from .contract import Contract, Extents
from .launching import Launch, is_amd, is_exact, is_hopper
from .notes import another_chip, in_fp32, takes
from .operator import Operator
from .planned import Planned
from .tma import every_step_for_tma, padded

CONTRACT = Contract("attention_varlen_backward", "do: any (total_q, heads, value_dim)", "q: float (total_q, heads, dim)",
                    "k: =q (total_k, kv_heads, dim)", "v: =q (total_k, kv_heads, value_dim)", "sinks?: any (heads)",
                    "-> dq: =q (total_q, heads, dim)", "-> dk: =q (total_k, kv_heads, dim)",
                    "-> dv: =q (total_k, kv_heads, value_dim)", "-> dsinks: =sinks|=q () like sinks")
WIDE_AND_ONE_ORDER = False  # by the kernels for Hopper, too: right in the simulator, but no GPU has run them yet
WORTH_A_COPY = 1 << 34  # products from which copying for TMA costs less than the plain kernels' slower products


def rounded(length: int) -> int:
    """A bound of lengths, as a power of two: calls whose longest sequences differ a little have one plan."""
    return 1 << (length - 1).bit_length() if length > 0 else length


def _plan(of: Extents, do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, cu_q: Tensor, cu_k: Tensor,
          dlse: Tensor | None, sinks: Tensor | None, slopes: Tensor | None, *options) -> Callable:
    made = _plan_of_kernels(do, q, k, v, o, lse, dlse, cu_q, cu_k, slopes, *options)

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, cu_q: Tensor, cu_k: Tensor, dlse: Tensor | None,
             sinks: Tensor | None, slopes: Tensor | None) -> tuple[Tensor, ...]:
        *gradients, dsinks = made(do, q, k, v, o, lse, dlse, cu_q.contiguous(), cu_k.contiguous(), sinks, floats(slopes))
        return *gradients, q.new_empty(0) if sinks is None else dsinks.to(sinks.dtype)

    return plan


def _plan_of_kernels(
        do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, cu_q: Tensor, cu_k: Tensor,
        slopes: Tensor | None, max_q: int, max_k: int, causal: bool, scale: float | None, left: int | None, right: int | None,
        softcap: float | None, exact: bool, one_order: bool) -> Callable:
    """A function from (do, q, k, v, o, lse, dlse, cu_q, cu_k, sinks, slopes) to (dq, dk, dv, gradient of the sinks or None)."""
    changes = dict(window=(left, right), softcap=softcap, slopes=floats(slopes))
    starts = cu_q.contiguous(), cu_k.contiguous()
    if 0 in (*q.shape, *k.shape, *v.shape, max_q, max_k) or cu_q.shape[0] == 1:
        return _by_plain_triton([])
    width = -(-max(q.shape[2], v.shape[2]) // 8) * 8
    width = width if width <= max(HEAD_DIMS) else None      # of wide heads, values may have another
    near = (slopes is None or max_q + max_k <= LONGEST_WITH_SLOPES) and max(len(q), len(k)) < FAR
    timed = width is not None and not one_order
    if takes("attention_varlen_backward", another_chip(q), in_fp32(q), scale is not None and not scale > 0 and
             "the scale is not more than 0", max(q.shape[2], v.shape[2]) > WIDEST and f"heads are wider than {WIDEST}",
             not near and "slopes reach too far", not (timed or WIDE_AND_ONE_ORDER) and "this form waits for a run on a GPU"):
        scale = q.shape[2]**-0.5 if scale is None else scale
        plan = _by_tma(do, q, k, v, o, lse, dlse, *starts, max_q, max_k, causal, scale, width, one_order, changes)
        if plan is not None:
            return plan
    chosen = plain.tiles_on_amd(max_q, max_k, q.shape[2], v.shape[2], q.dtype.itemsize) if is_amd(q) else None
    made = plain.launches(q, k, v, do, lse, lse, *(x.new_empty(x.shape) for x in (q, k, v)), causal, scale, exact,
                          packed=(*starts, max_q, max_k), large=is_hopper(q), chosen=chosen, **changes)
    return _by_plain_triton([Launch(q, *one) for one in made])


def _by_plain_triton(launches: list[Launch]) -> Callable:
    """The plan with two launches, or with none where there is nothing to compute; the same bits in every run."""

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, cu_q: Tensor, cu_k: Tensor,
             sinks: Tensor | None, slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        delta = (o.float() * do.float()).sum(-1).T
        delta = (delta if dlse is None else delta - dlse).contiguous()
        dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))
        more = () if slopes is None else (slopes, )
        for launch, results in zip(launches, ((dq, ), (dk, dv))):
            launch(q, k, v, do, *results, lse, delta, *more, cu_q, cu_k)
        if sinks is None:
            return dq, dk, dv, None
        inside = torch.arange(len(q), device=q.device) < cu_q[-1]
        return dq, dk, dv, of_sinks(sinks, torch.where(inside, lse, float("inf"))[None], torch.where(inside, delta, 0.0)[None])

    return plan


def _by_tma(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, cu_q: Tensor, cu_k: Tensor,
            max_q: int, max_k: int, causal: bool, scale: float, width: int | None, one_order: bool,
            changes: dict) -> Callable | None:
    """The plan with the kernels for Hopper, three launches, or None where copies for TMA would be needed and not pay."""
    given = q, k, v, o, do
    widths = [width or -(-x.shape[2] // 8) * 8 for x in given]      # of wide heads as they are, but for what TMA asks of rows
    copies = [x.shape[2] != wanted or not every_step_for_tma(x) for x, wanted in zip(given, widths)]
    if any(copies) and q.shape[1] * len(q) * (len(k) // (cu_q.shape[0] - 1)) * max(widths) < WORTH_A_COPY:
        return None
    prepared = [padded(x, wanted) if copy else x for x, wanted, copy in zip(given, widths, copies)]
    wanted_work = hopper.workspace(*prepared[:3], cu_q, max_q, max_k, causal, one_order=one_order)
    shapes = [None if one is None else (one[0], getattr(torch, one[1])) for one in wanted_work]

    def workspace(q: Tensor) -> list[Tensor | None]:
        return [None if one is None else q.new_empty(one[0], dtype=one[1]) for one in shapes]

    def results(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return [x.new_empty(*x.shape[:2], wanted) for x, wanted in zip((q, k, v), widths)]

    *operands, of_do = prepared
    made = hopper.launches(*operands, lse.contiguous(), of_do, *results(q, k, v), cu_q, cu_k, workspace(q), max_q, max_k,
                           causal, scale, dlse=None if dlse is None else dlse.contiguous(), one_order=one_order, **changes)
    before, products, after = (Launch(q, *one) for one in made)

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, cu_q: Tensor, cu_k: Tensor,
             sinks: Tensor | None, slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, of_o, of_do = [padded(x, wanted) if copy else x for x, wanted, copy in zip((q, k, v, o, do), widths, copies)]
        dq, dk, dv = wide = results(q, k, v)
        rows, sums, tiles, query_tiles = workspace(q)
        more, of_lse = () if slopes is None else (slopes, ), [one.contiguous() for one in (lse, dlse) if one is not None]
        of_dq = [] if sums is None else [sums]
        lists = [tiles] if query_tiles is None else [tiles, query_tiles]
        lses, deltas = rows
        before(of_o, of_do, *of_lse, rows, *(of_dq or [dq]), dk, dv, *lists, cu_q, cu_k)
        products(*inputs, of_do, lses, deltas, *of_dq, dk, dv, tiles, *more)
        if sums is None:
            after(*inputs, of_do, dq, rows, query_tiles, *more)
        else:
            after(sums, dq, cu_q)
        found = [one if one.shape == x.shape else one[..., :x.shape[2]].contiguous() for x, one in zip((q, k, v), wide)]
        return *found, None if sinks is None else of_sinks(sinks.float() * log2(e), rows[:1], rows[1:], torch.exp2)

    return plan


ATTENTION_VARLEN_BACKWARD = Operator(
    "attention_varlen_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor cu_seqlens_q, "
    "Tensor cu_seqlens_k, Tensor? dlse, Tensor? sinks, Tensor? alibi_slopes, SymInt max_seqlen_q, SymInt max_seqlen_k, "
    "bool causal=False, float? scale=None, int? left=None, int? right=None, float? softcap=None) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    Planned(_plan, is_exact, one_order, of="q", rounds=dict(max_seqlen_q=rounded, max_seqlen_k=rounded)), CONTRACT)
