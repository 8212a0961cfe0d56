"""`mimw::attention_backward`: the gradients of `mimw.ops.attention`, on the library's kernels for Hopper, else by torch's products.

Input: the gradients of o and, where it was used, of lse; q, k, v; o and lse of the call. Output: the gradients of q, k and v:

    torch.ops.mimw.attention_backward(do, q, k, v, o, lse, None, True, None)    (dq, dk, dv), in memory as q, k and v
    torch.ops.mimw.attention_with_backward(do, q, k, v, o, lse, None, sinks, None, True, None, 128)     and that of the sinks

`backward()` through `mimw.ops.attention` comes here; to the second one if it has a window, soft cap, sinks or slopes, and to
`mimw::attention_mod_backward` if it has a score_mod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import e, log2, prod, sqrt

import torch
from torch import Tensor

from mimw.kernels import attention_backward as hopper
from mimw.kernels import wide_attention_backward as wide
from mimw.kernels.attention import LONGEST_WITH_SLOPES
from mimw.kernels.attention_backward.configs import HEAD_DIMS
from mimw.score_mods import Box, ForKernels, by_torch, for_kernels, plain

from .contract import Contract, Extents
from .launching import Launch
from .notes import another_chip, in_fp32, takes
from .operator import Operator
from .planned import Planned
from .tma import every_step_for_tma, padded

TENSORS = ("do: any (..., heads, seq_q, value_dim) or (seq_q, value_dim)", "q: float (..., heads, seq_q, dim) or (seq_q, dim)",
           "k: =q (..., kv_heads, seq_k, dim) or (seq_k, dim)", "v: =q (..., kv_heads, seq_k, value_dim) or (seq_k, value_dim)",
           "-> dq: =q () like q", "-> dk: =k () like k", "-> dv: =v () like v")
FLOPS = "2 * prod(front) * heads * seq_q * seq_k * (3 * dim + 2 * value_dim)"
CONTRACT = Contract("attention_backward", *TENSORS, flops=FLOPS)
CHANGED = Contract("attention_backward", *TENSORS, "sinks?: any (of_sinks)", "-> dsinks: =sinks|fp32 () like sinks", flops=FLOPS)
TABLES = tuple(f"table{number}?: any (*of_table{number})" for number in range(4))
MODIFIED = Contract("attention_backward", *TENSORS, "sinks?: any (of_sinks)", *TABLES, "-> dsinks: =sinks|fp32 () like sinks",
                    flops=FLOPS)
QUERIES = 1024      # at a time, by torch's products: of so many the scores are in memory


def one_order(x: Tensor) -> bool:
    """True if sums are to have the same bits in every run."""
    return torch.are_deterministic_algorithms_enabled()


def _plan_of_three(of: Extents, do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None,
                   causal: bool, scale: float | None, one_order: bool) -> Callable:
    plan = _plan(do, q, k, v, o, lse, dlse, causal, scale, one_order)
    return lambda *tensors: plan(*tensors)[:3]


def _plan_with(of: Extents, do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None,
               sinks: Tensor | None, slopes: Tensor | None, causal: bool, scale: float | None, left: int | None, right: int | None,
               softcap: float | None, one_order: bool) -> Callable:
    made = _plan(do, q, k, v, o, lse, dlse, causal, scale, one_order, (left, right), softcap, sinks, floats(slopes))

    def plan(*tensors: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        *given, lse, dlse, sinks, slopes = tensors
        *gradients, dsinks = made(*given, lse, dlse, sinks, floats(slopes))
        return *gradients, lse.new_empty(0) if sinks is None else dsinks.to(sinks.dtype)

    return plan


def _plan_mod(of: Extents, do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None,
              sinks: Tensor | None, *given) -> Callable:
    *tables, text, causal, scale, left, right, one_order = given
    made = _plan(do, q, k, v, o, lse, dlse, causal, scale, one_order, (left, right), None, sinks, None,
                 (text, mod_of(text, tables, q, k, lse.shape[:-2])))

    def plan(*tensors: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        *given, lse, dlse, sinks = tensors[:8]
        *gradients, dsinks = made(*given, lse, dlse, sinks, None, *(plain(x) for x in tensors[8:] if x is not None))
        return *gradients, lse.new_empty(0) if sinks is None else dsinks.to(sinks.dtype)

    return plan


def mod_of(text: str, tables: Sequence[Tensor | None], q: Tensor, k: Tensor, batch: tuple[int, ...]) -> ForKernels:
    """A score_mod's functions for a call's extents."""
    box = Box(prod(batch), q.shape[-3] if q.dim() > 2 else 1, q.shape[-2], k.shape[-2])
    return for_kernels(text, [x for x in tables if x is not None], box)


def floats(slopes: Tensor | None) -> Tensor | None:
    """The slopes as kernels read them."""
    return None if slopes is None else slopes.float().contiguous()


def _plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, causal: bool,
          scale: float | None, one_order: bool, window: tuple = (None, None), softcap: float | None = None,
          sinks: Tensor | None = None, slopes: Tensor | None = None, mod: tuple[str, ForKernels] | None = None) -> Callable:
    """A function from (do, q, k, v, o, lse, dlse, sinks, slopes, tables of `mod`) to (dq, dk, dv, gradient of the sinks or None);
    `mod` is a score_mod's text and functions."""
    scale, batch = 1 / sqrt(q.shape[-1]) if scale is None else scale, lse.shape[:-2]
    width = -(-max(q.shape[-1], v.shape[-1]) // 8) * 8
    width = width if width <= max(HEAD_DIMS) else None      # of wide heads, values may have another
    reach = 0 if causal else window[1]      # from the first queries on: the kernels are for launches whose queries all see a key
    fits = (reach is None or k.shape[-2] + reach >= q.shape[-2]) and (
        slopes is None or q.shape[-2] + k.shape[-2] <= LONGEST_WITH_SLOPES)
    if lse.numel() == 0:
        return lambda *tensors: (*(torch.zeros_like(x) for x in tensors[1:4]), None if sinks is None else torch.zeros_like(sinks))
    if takes("attention_backward", another_chip(q), in_fp32(q), not scale > 0 and "the scale is not more than 0",
             max(q.shape[-1], v.shape[-1]) > wide.WIDEST and f"heads are wider than {wide.WIDEST}",
             not (k.shape[-2] and fits) and "there are no keys, or queries that see none, or slopes for too many"):
        changes = dict(window=window, softcap=softcap, slopes=slopes, mod=None if mod is None else mod[1])
        return _by_tma(do, q, k, v, o, lse, dlse, causal, scale, width, one_order, changes)
    return lambda *tensors: _by_torch(*tensors, batch=batch, causal=causal, scale=scale, window=window, softcap=softcap,
                                       mod=mod)


def as_four(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The tensor as (batch, heads, length, dim)."""
    x = x.unsqueeze(0) if x.dim() == 2 else x
    return x.expand(*batch, *x.shape[-3:]).reshape(prod(batch), *x.shape[-3:])


def _rows(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The tensor as (batch, heads, length), contiguous."""
    return x.reshape(prod(batch), -1, x.shape[-1]).contiguous()


def _into(like: Tensor, gradient: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The gradient, (batch, heads, length, at least dim), summed over what was broadcast, in memory as the tensor it belongs to."""
    shape = like.shape if like.dim() > 2 else (1, *like.shape)
    found = gradient[..., :like.shape[-1]].reshape(*batch, *gradient.shape[1:3], like.shape[-1]).sum_to_size(shape)
    return torch.empty_like(like).copy_(found.reshape(like.shape))


def _by_tma(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, causal: bool, scale: float,
            width: int | None, one_order: bool, changes: dict) -> Callable:
    """The plan with the kernels for Hopper, three launches: those for heads of `width`, or for wide ones."""
    batch, given = lse.shape[:-2], (q, k, v, o, do)
    views = [as_four(x, batch) for x in given]
    widths = [width or -(-x.shape[-1] // 8) * 8 for x in given]     # of the wide ones as they are, but for what TMA asks of rows
    copies = [x.shape[-1] != wanted or not every_step_for_tma(view) for x, view, wanted in zip(given, views, widths)]
    prepared = [padded(view, wanted) if copy else view for view, wanted, copy in zip(views, widths, copies)]
    results = [torch.empty_like(x) for x in (q, k, v)]
    copy_back = [copy or as_four(out, batch).data_ptr() != out.data_ptr() or not every_step_for_tma(as_four(out, batch))
                 for copy, out in zip(copies, results)]
    gradients = [torch.empty_like(one) if copy else as_four(out, batch) for one, out, copy in zip(prepared, results, copy_back)]
    *operands, of_do = prepared
    queries, *_ = operands
    changed = changes["softcap"] is not None or changes["mod"] is not None
    of_rows, of_sums = ((wide.workspace(queries), wide.sums_of(queries, operands[2], changed)) if width is None else
                        hopper.workspace(queries, causal=causal, mod=changes["mod"]))
    one_order = one_order or of_sums is None

    def workspace(q: Tensor) -> tuple[Tensor, Tensor | None]:
        return q.new_empty(of_rows, dtype=torch.float32), None if one_order else q.new_empty(of_sums, dtype=torch.float32)

    rows, sums = workspace(q)
    arrays = *operands, _rows(lse, batch), of_do, *gradients, rows
    options = dict(causal=causal, scale=scale, dlse=None if dlse is None else _rows(dlse, batch),
                   **{**changes, "slopes": _of_heads(changes["slopes"])})
    made = (wide.launches(*arrays, sums=sums, **options) if width is None else
            hopper.launches(*arrays, sums, one_order=one_order, **options))
    before, products, after = (Launch(q, *one) for one in made)
    shapes = [tuple(one.shape) for one in gradients]

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, sinks: Tensor | None = None,
             slopes: Tensor | None = None, *tables: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, of_o, of_do = [padded(as_four(x, batch), wanted) if copy else as_four(x, batch)
                               for x, wanted, copy in zip((q, k, v, o, do), widths, copies)]
        outs = [torch.empty_like(x) for x in (q, k, v)]
        dq, dk, dv = gradients = [out.new_empty(shape) if copy else out for out, shape, copy in zip(outs, shapes, copy_back)]
        rows, sums = workspace(q)
        of_lse, of_dq = [_rows(one, batch) for one in (lse, dlse) if one is not None], [] if one_order else [sums]
        more = tables if slopes is None else [slopes]
        lses, deltas = rows
        before(of_o, of_do, *of_lse, rows, *of_dq)
        products(*inputs, of_do, lses, deltas, *of_dq, dk, dv, *more)
        after(*((*inputs, of_do, dq, rows, *more) if one_order else (sums, dq)))
        found = [_into(like, one, batch) if copy else one for like, one, copy in zip((q, k, v), gradients, copy_back)]
        if sinks is None:
            return *found, None
        lses, deltas = rows.view(2, prod(batch), -1, rows.shape[2])     # beyond the last query lse is inf
        return *found, of_sinks(sinks.float() * log2(e), lses, deltas, torch.exp2)

    return plan


def _of_heads(slopes: Tensor | None) -> Tensor | None:
    return slopes if slopes is None or slopes.dim() == 1 else slopes.view(-1, slopes.shape[-1])


def of_sinks(sinks: Tensor, lse: Tensor, delta: Tensor, exp: Callable = torch.exp) -> Tensor:
    """The gradient of the sinks, fp32, of (batches, heads, queries): a sink's probability times how much its gradient, 0, differs
    from the mean. Where lse is -inf the sink is, too."""
    p = exp(sinks.float()[:, None] - lse).masked_fill(lse == float("-inf"), 0.0)
    return -(p * delta).sum((0, 2))


def _by_torch(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, sinks: Tensor | None = None,
              slopes: Tensor | None = None, *tables: Tensor, batch: tuple[int, ...], causal: bool, scale: float, window: tuple,
              softcap: float | None, mod: tuple[str, ForKernels] | None = None) -> tuple[Tensor | None, ...]:
    """By torch's products in fp32, some queries at a time: for shapes, types and chips that the kernels are not for."""
    all_q, all_k, all_v, all_o, all_do = (as_four(x, batch).float() for x in (q, k, v, o, do))
    heads, kv_heads = all_q.shape[1], all_k.shape[1]
    keys, values = (x.repeat_interleave(heads // kv_heads, 1) for x in (all_k, all_v))
    lse = _rows(lse, batch)
    deltas = (all_o * all_do).sum(-1)
    deltas = deltas if dlse is None else deltas - _rows(dlse, batch)
    dq, dk, dv = torch.empty_like(all_q), torch.zeros_like(keys), torch.zeros_like(values)
    at, left, right = torch.arange(k.shape[-2], device=q.device), window[0], 0 if causal else window[1]
    for start in range(0, all_q.shape[2], QUERIES):
        some = slice(start, start + QUERIES)
        scores, derivative = all_q[:, :, some] @ keys.mT * scale, scale
        if softcap is not None:
            tanh = (scores / softcap).tanh()
            scores, derivative = softcap * tanh, scale * (1 - tanh**2)
        if mod is not None:
            indices = [torch.arange(size, device=q.device) for size in (*scores.shape[:3], k.shape[-2])]
            indices[2] += start
            grid = [x.view([-1 if dim == at else 1 for dim in range(4)]) for at, x in enumerate(indices)]
            scores, derivative = by_torch(mod[0], scores, grid, tables)
            derivative = (derivative * scale).masked_fill(scores == float("-inf"), 0.0)
        positions = torch.arange(start, start + scores.shape[2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
        if slopes is not None:
            scores = scores - _of_heads(slopes)[..., None, None] * (positions - at).abs()
        unseen = (lse[:, :, some, None] == float("-inf")).expand_as(scores)
        unseen = unseen if right is None else unseen | (at > positions + right)
        unseen = unseen if left is None else unseen | (at < positions - left)
        p = (scores - lse[:, :, some, None]).exp().masked_fill(unseen, 0.0)
        dv += p.mT @ all_do[:, :, some]
        ds = p * (all_do[:, :, some] @ values.mT - deltas[:, :, some, None]) * derivative
        dq[:, :, some] = ds @ keys
        dk += ds.mT @ all_q[:, :, some]
    dk, dv = (x.unflatten(1, (kv_heads, heads // kv_heads)).sum(2) for x in (dk, dv))
    found = (_into(like, one, batch) for like, one in zip((q, k, v), (dq, dk, dv)))
    return *found, None if sinks is None else of_sinks(sinks, lse, deltas)


ATTENTION_BACKWARD = Operator(
    "attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse=None, bool causal=False, "
    "float? scale=None) -> (Tensor, Tensor, Tensor)", Planned(_plan_of_three, one_order), CONTRACT)
ATTENTION_MOD_BACKWARD = Operator(
    "attention_mod_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse, Tensor? sinks, "
    "Tensor? table0, Tensor? table1, Tensor? table2, Tensor? table3, str score_mod, bool causal=False, float? scale=None, "
    "int? left=None, int? right=None) -> (Tensor, Tensor, Tensor, Tensor)", Planned(_plan_mod, one_order), MODIFIED)
ATTENTION_WITH_BACKWARD = Operator(
    "attention_with_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse, Tensor? sinks, "
    "Tensor? alibi_slopes, bool causal=False, float? scale=None, int? left=None, int? right=None, float? softcap=None) "
    "-> (Tensor, Tensor, Tensor, Tensor)", Planned(_plan_with, one_order), CHANGED)
