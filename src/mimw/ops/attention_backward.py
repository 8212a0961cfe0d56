"""`mimw::attention_backward`: the gradients of `mimw.ops.attention`, on the library's kernels for Hopper, else by torch's products.

Input: the gradients of o and, where it was used, of lse; q, k, v; o and lse of the call. Output: the gradients of q, k and v:

    torch.ops.mimw.attention_backward(do, q, k, v, o, lse, None, True, None)    (dq, dk, dv), in memory as q, k and v

`backward()` through `mimw.ops.attention` comes here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

import torch
from torch import Tensor

from mimw.kernels import attention_backward as hopper
from mimw.kernels.attention_backward.configs import HEAD_DIMS

from .launching import Launch, is_hopper
from .operator import Operator
from .plans import Plans, look

QUERIES = 1024      # at a time, by torch's products: of so many the scores are in memory


def _fake(do: Tensor, q: Tensor, k: Tensor, v: Tensor, *_) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _run(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None = None, causal: bool = False,
         scale: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    one_order = torch.are_deterministic_algorithms_enabled()
    key = *map(look, (do, q, k, v, o)), dlse is None, causal, scale, one_order
    plan = _PLANS[key] or _PLANS.made(key, do, q, k, v, o, lse, dlse, causal, scale, one_order)
    return plan(do, q, k, v, o, lse, dlse)


def _plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, causal: bool,
          scale: float | None, one_order: bool) -> Callable:
    scale = 1 / sqrt(q.shape[-1]) if scale is None else scale
    if lse.numel() == 0 or k.shape[-2] == 0:
        return lambda *tensors: tuple(torch.zeros_like(x) for x in tensors[1:4])
    width = next((known for known in HEAD_DIMS if known >= max(q.shape[-1], v.shape[-1])), None)
    if (width and is_hopper(q) and q.dtype is not torch.float32 and scale > 0
            and not (causal and k.shape[-2] < q.shape[-2])):
        return _by_tma(do, q, k, v, o, lse, dlse, causal, scale, width, one_order)
    batch = lse.shape[:-2]
    return lambda *tensors: _by_torch(*tensors, batch, causal, scale)


def _four(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """As (batch, heads, length, dim)."""
    x = x.unsqueeze(0) if x.dim() == 2 else x
    return x.expand(*batch, *x.shape[-3:]).reshape(prod(batch), *x.shape[-3:])


def _rows(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """As (batch, heads, length), contiguous."""
    return x.reshape(prod(batch), -1, x.shape[-1]).contiguous()


def _into(like: Tensor, gradient: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The gradient, (batch, heads, length, at least dim), summed over what was broadcast, in memory as the tensor it belongs to."""
    shape = like.shape if like.dim() > 2 else (1, *like.shape)
    found = gradient[..., :like.shape[-1]].reshape(*batch, *gradient.shape[1:3], like.shape[-1]).sum_to_size(shape)
    return torch.empty_like(like).copy_(found.reshape(like.shape))


def _tma_takes(x: Tensor) -> bool:
    """Whether TMA takes the tensor with its strides."""
    return (x.stride(3) == 1 and x.data_ptr() % 16 == 0
            and all(step > 0 and step * x.itemsize % 16 == 0 for step in x.stride()[:3]))


def _wide(x: Tensor, width: int) -> Tensor:
    """A contiguous copy with zeros up to `width`: they add nothing to scores, and columns of zeros to the results."""
    copy = x.new_zeros(*x.shape[:3], width)
    copy[..., :x.shape[3]] = x
    return copy


def _by_tma(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, causal: bool, scale: float,
            width: int, one_order: bool) -> Callable:
    """The plan with the kernels for Hopper: three launches."""
    batch, given = lse.shape[:-2], (q, k, v, o, do)
    views = [_four(x, batch) for x in given]
    copies = [x.shape[-1] != width or not _tma_takes(view) for x, view in zip(given, views)]
    prepared = [_wide(view, width) if copy else view for view, copy in zip(views, copies)]
    results = [torch.empty_like(x) for x in (q, k, v)]
    copy_back = [copy or _four(out, batch).data_ptr() != out.data_ptr() or not _tma_takes(_four(out, batch))
                 for copy, out in zip(copies, results)]
    gradients = [torch.empty_like(one) if copy else _four(out, batch) for one, out, copy in zip(prepared, results, copy_back)]
    of_rows, of_sums = hopper.workspace(prepared[0], causal=causal)

    def workspace(q: Tensor) -> tuple[Tensor, Tensor | None]:
        return q.new_empty(of_rows, dtype=torch.float32), None if one_order else q.new_empty(of_sums, dtype=torch.float32)

    rows, sums = workspace(q)
    made = hopper.launches(*prepared[:4], _rows(lse, batch), prepared[4], *gradients, rows, sums, causal, scale,
                           dlse=None if dlse is None else _rows(dlse, batch), one_order=one_order)
    launches = [Launch(q, *one) for one in made]
    wide = [tuple(one.shape) for one in gradients]

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None) -> tuple[Tensor, ...]:
        ready = [_wide(_four(x, batch), width) if copy else _four(x, batch) for x, copy in zip((q, k, v, o, do), copies)]
        outs = [torch.empty_like(x) for x in (q, k, v)]
        dq, dk, dv = gradients = [out.new_empty(shape) if copy else out for out, shape, copy in zip(outs, wide, copy_back)]
        rows, sums = workspace(q)
        of_lse, of_dq = [_rows(one, batch) for one in (lse, dlse) if one is not None], [] if one_order else [sums]
        launches[0](ready[3], ready[4], *of_lse, rows, *of_dq)
        launches[1](*ready[:3], ready[4], rows[0], rows[1], *of_dq, dk, dv)
        launches[2](*((*ready[:3], ready[4], dq, rows) if one_order else (sums, dq)))
        return tuple(_into(like, one, batch) if copy else one for like, one, copy in zip((q, k, v), gradients, copy_back))

    return plan


def _by_torch(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, batch: tuple[int, ...],
              causal: bool, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """By torch's products in fp32, some queries at a time: for shapes, types and chips that the kernels are not for."""
    all_q, all_k, all_v, all_o, all_do = (_four(x, batch).float() for x in (q, k, v, o, do))
    heads, kv_heads = all_q.shape[1], all_k.shape[1]
    keys, values = (x.repeat_interleave(heads // kv_heads, 1) for x in (all_k, all_v))
    lse, dlse = _rows(lse, batch), None if dlse is None else _rows(dlse, batch)
    dq, dk, dv = torch.empty_like(all_q), torch.zeros_like(keys), torch.zeros_like(values)
    for start in range(0, all_q.shape[2], QUERIES):
        some = slice(start, start + QUERIES)
        p = (all_q[:, :, some] @ keys.mT * scale - lse[:, :, some, None]).exp()
        unseen = (lse[:, :, some, None] == float("-inf")).expand_as(p)
        if causal:
            last = torch.arange(start, start + p.shape[2], device=p.device) + k.shape[-2] - q.shape[-2]
            unseen = unseen | (torch.arange(k.shape[-2], device=p.device) > last[:, None])
        p = p.masked_fill(unseen, 0.0)
        delta = (all_o[:, :, some] * all_do[:, :, some]).sum(-1)
        delta = delta if dlse is None else delta - dlse[:, :, some]
        dv += p.mT @ all_do[:, :, some]
        ds = p * (all_do[:, :, some] @ values.mT - delta[..., None]) * scale
        dq[:, :, some] = ds @ keys
        dk += ds.mT @ all_q[:, :, some]
    dk, dv = (x.unflatten(1, (kv_heads, heads // kv_heads)).sum(2) for x in (dk, dv))
    return tuple(_into(like, one, batch) for like, one in zip((q, k, v), (dq, dk, dv)))


_PLANS = Plans(_plan)

ATTENTION_BACKWARD = Operator(
    "attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse=None, bool causal=False, "
    "float? scale=None) -> (Tensor, Tensor, Tensor)", _run, _fake)
