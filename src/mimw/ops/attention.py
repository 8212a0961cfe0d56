"""`mimw.ops.attention`: scaled dot product attention on the library's kernel, with a plain one for what TMA does not take.

Input: queries, keys and values. Output: o = softmax(scale q k^T) v and, if asked for, the logarithms of the denominators:

    o = attention(q, k, v, causal=True)                     (batch, heads, length, dim)
    o, lse = attention(q, k, v, return_lse=True)
    torch.ops.mimw.attention(q, k, v, True)                 the operator itself: (o, lse)
    o = attention(q, k, v, window=(128, 0), softcap=30., sinks=sinks)           by torch.ops.mimw.attention_with
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

import torch
from torch import Tensor

from mimw.kernels import attention as hopper
from mimw.kernels import plain_attention
from mimw.kernels.attention.configs import HEAD_DIMS, has_rest, value_dim

from .attention_backward import ATTENTION_BACKWARD, ATTENTION_WITH_BACKWARD
from .launching import Launch, is_exact, is_hopper, programs, zeros
from .operator import LOWER, Operator
from .plans import Plans, look

TYPES = (torch.bfloat16, torch.float16, torch.float32)
WORTH_A_COPY = 1 << 34  # products from which copying q, k and v for TMA costs less than the plain kernel's slower products


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None, return_lse: bool = False, *,
              window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, sinks: Tensor | None = None,
              alibi_slopes: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v, with fp32 scores and sums.

    args:      q           (..., heads, seq_q, dim): bf16, fp16 or fp32, any strides, any extents, also 0; (seq_q, dim) is one head
               k, v        (..., kv_heads, seq_k, dim) and (..., kv_heads, seq_k, value_dim) of q's type; kv_heads divides heads,
                           and head h reads kv head h * kv_heads // heads; the dimensions in front of the heads are broadcast
               causal      query i sees keys up to i + seq_k - seq_q, so that the last query sees all. Of equal lengths that is
                           scaled_dot_product_attention's `is_causal`; of others it is torch's `causal_lower_right`
               scale       of the scores, by default 1 / sqrt(dim)
               return_lse  also the natural logarithms of the softmax's denominators
               window      (left, right): a query at position p = i + seq_k - seq_q sees keys p - left to p + right; None is no
                           bound, causal a right bound of 0. Blocks of keys that no query near by sees cost nothing
               softcap     more than 0: softcap tanh(score / softcap) in place of each score. On sm_90 by tanh.approx, whose
                           relative error is up to 2^-11: a capped score s is off by up to |s| / 2048
               sinks       (heads) of bf16, fp16 or fp32: a logit of each head that joins the sum of each row, with no value; lse
                           has it
               alibi_slopes   (heads) or (..., heads) with the dimensions in front of the heads, of these types: slope |p - key| is
                           subtracted from scores, after the soft cap
    returns:   o, (..., heads, seq_q, value_dim) of q's type, in memory as q if q is (batch, length, heads, dim) transposed, else
               contiguous; with lse, fp32 (..., heads, seq_q). A query that sees no key gets o = 0 and lse = -inf,
               or the head's sink
    computed:  on sm_90 by `mimw.kernels.attention` for bf16 and fp16, where heads are as wide as it takes and TMA can read them or
               copies are worth making; else by `mimw.kernels.plain_attention`. fp32 obeys torch.get_float32_matmul_precision()
    gradients  of q, k, v and sinks, from those of o and lse, by `mimw.kernels.attention_backward` for bf16 and fp16 on sm_90 with
               heads of up to 128, `wide_attention_backward` with heads of up to 256, else by torch's products; the same bits in
               every run under torch.use_deterministic_algorithms; no second derivative; none of alibi_slopes: an error on
               `backward()` where they require one
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types
    """
    left, right = window
    if left is right is softcap is sinks is alibi_slopes is None:
        o, lse = ATTENTION(q, k, v, causal, scale)
    else:
        o, lse = ATTENTION_WITH(q, k, v, sinks, alibi_slopes, causal, scale, left, right, softcap)
    return (o, lse) if return_lse else o


def _checked(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    """The batch dimensions of the result, or an error."""
    if min(q.dim(), k.dim(), v.dim()) < 2:
        raise RuntimeError(f"attention: q, k and v need 2 dimensions at least; they have {q.dim()}, {k.dim()} and {v.dim()}")
    if not q.device == k.device == v.device:
        raise RuntimeError(f"attention: q is on {q.device}, k on {k.device} and v on {v.device}; all must be on one device")
    if not q.dtype == k.dtype == v.dtype:
        raise RuntimeError(f"attention: q is {q.dtype}, k {k.dtype} and v {v.dtype}; all must be of one type")
    if q.dtype not in TYPES:
        raise NotImplementedError(f"attention: q, k and v are {q.dtype}; they may be {', '.join(map(str, TYPES))}")
    torch._check(q.shape[-1] > 0 and v.shape[-1] > 0,
                 lambda: f"attention: q is {_by(q)} and v {_by(v)}; heads of width 0 have no scores")
    heads, kv_heads = _heads(q), _heads(k)
    fits = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2] and kv_heads == _heads(v)
    torch._check(bool(fits), lambda: f"attention: q is {_by(q)}, k {_by(k)} and v {_by(v)}; q and k must have one head dim, k and "
                 "v one length and as many heads")
    torch._check(heads == kv_heads or kv_heads > 0 and heads % kv_heads == 0,
                 lambda: f"attention: q has {heads} heads, k and v {kv_heads}, which must divide them")
    return tuple(torch.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3]))


def _checked_with(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, slopes: Tensor | None, left: int | None, right: int | None,
                  softcap: float | None) -> tuple[int, ...]:
    """The batch dimensions of the result, or an error."""
    batch, heads = _checked(q, k, v), _heads(q)
    for name, bound in (("left", left), ("right", right)):
        if bound is not None and bound < 0:
            raise RuntimeError(f"attention: the {name} bound of the window is {bound}; it must be 0 or more keys, or None for "
                               "no bound")
    if softcap is not None and not softcap > 0:
        raise RuntimeError(f"attention: softcap is {softcap}; it must be more than 0, or None for none")
    for name, x, shapes in (("sinks", sinks, [(heads, )]), ("alibi_slopes", slopes, [(heads, ), (*batch, heads)])):
        if x is None:
            continue
        if x.device != q.device:
            raise RuntimeError(f"attention: q is on {q.device} and {name} on {x.device}; all must be on one device")
        if x.dtype not in TYPES:
            raise NotImplementedError(f"attention: {name} are {x.dtype}; they may be {', '.join(map(str, TYPES))}")
        torch._check(any(tuple(x.shape) == shape for shape in shapes),
                     lambda: f"attention: {name} have the shape {tuple(x.shape)}; for q {_by(q)} it must be "
                     f"{' or '.join(map(str, shapes))}")
    return batch


def _heads(x: Tensor) -> int:
    return x.shape[-3] if x.dim() > 2 else 1


def _by(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))


def _results(q: Tensor, k: Tensor, v: Tensor, batch: tuple) -> tuple[Tensor, Tensor]:
    """o and lse, empty."""
    front = (*batch, *q.shape[-3:-1]) if q.dim() > 2 or batch else tuple(q.shape[-2:-1])
    lse = q.new_empty(front, dtype=torch.float32)
    if q.dim() == 4 and len(front) == 3 and not q.is_contiguous() and q.transpose(1, 2).is_contiguous():
        return q.new_empty(front[0], front[2], front[1], v.shape[-1]).transpose(1, 2), lse
    return q.new_empty(*front, v.shape[-1]), lse


def _fake(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> tuple[Tensor, Tensor]:
    return _results(q, k, v, _checked(q, k, v))


def _fake_with(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, slopes: Tensor | None, causal: bool = False,
               scale: float | None = None, left: int | None = None, right: int | None = None,
               softcap: float | None = None) -> tuple[Tensor, Tensor]:
    return _results(q, k, v, _checked_with(q, k, v, sinks, slopes, left, right, softcap))


def _run_with(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, slopes: Tensor | None, causal: bool = False,
              scale: float | None = None, left: int | None = None, right: int | None = None,
              softcap: float | None = None) -> tuple[Tensor, Tensor]:
    exact = is_exact(q)
    key = (look(q), look(k), look(v), sinks is not None and look(sinks), slopes is not None and look(slopes), causal, scale, exact,
           left, right, softcap)
    plan = _PLANS[key]
    if plan is None:
        _checked_with(q, k, v, sinks, slopes, left, right, softcap)
        plan = _PLANS.made(key, q, k, v, causal, scale, exact, (left, right), softcap, sinks, slopes)
    return plan(q, k, v, *(x.float().contiguous() for x in (sinks, slopes) if x is not None))


def _run(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> tuple[Tensor, Tensor]:
    exact = is_exact(q)
    key = look(q), look(k), look(v), causal, scale, exact
    return (_PLANS[key] or _PLANS.made(key, q, k, v, causal, scale, exact))(q, k, v)


def _plan(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, exact: bool, window: tuple = (None, None),
          softcap: float | None = None, sinks: Tensor | None = None, slopes: Tensor | None = None) -> Callable:
    batch = _checked(q, k, v)
    o, lse = _results(q, k, v, batch)
    if lse.numel() == 0 or k.shape[-2] == 0:
        return lambda q, k, v, *more: _of_no_keys(*_results(q, k, v, batch), more[0] if sinks is not None else None)
    scale = 1 / sqrt(q.shape[-1]) if scale is None else scale
    views = [_four(x, batch) for x in (q, k, v)]
    changes = dict(window=window, softcap=softcap, sinks=None if sinks is None else sinks.float().contiguous(),
                   slopes=None if slopes is None else slopes.float().contiguous().view(-1, _heads(q)) if slopes.dim() > 1
                   else slopes.float().contiguous())
    reach = 0 if causal else window[1]      # from the first queries on: some of them may see no key
    fits = (reach is None or k.shape[-2] + reach >= q.shape[-2]) and (
        slopes is None or q.shape[-2] + k.shape[-2] <= hopper.LONGEST_WITH_SLOPES)
    if is_hopper(q) and q.dtype is not torch.float32 and scale > 0 and fits:
        if (plan := _by_tma(q, k, v, views, batch, causal, scale, changes)) is not None:
            return plan
    four = _four(o, batch)
    grid, args, meta = plain_attention.arguments(*views, four, _four(lse.unsqueeze(-1), batch).squeeze(-1), causal, scale, exact,
                                             **changes)
    launch = Launch(q, plain_attention.kernel, grid, args, meta)
    as_is = [view.data_ptr() == x.data_ptr() for view, x in zip(views, (q, k, v))]
    shape, strides, rows, steps = o.shape, o.stride(), lse.shape, lse.stride()

    def plan(q: Tensor, k: Tensor, v: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = q.new_empty_strided(shape, strides), q.new_empty_strided(rows, steps, dtype=torch.float32)
        launch(*(x if same else _four(x, batch) for x, same in zip((q, k, v), as_is)), o, lse, *more)
        return o, lse

    return plan


def _of_no_keys(o: Tensor, lse: Tensor, sinks: Tensor | None) -> tuple[Tensor, Tensor]:
    return o.zero_(), lse.fill_(float("-inf")) if sinks is None else lse.copy_(sinks[:, None] if lse.dim() > 1 else sinks)


def _four(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """As (batch, heads, length, dim)."""
    x = x.unsqueeze(0) if x.dim() == 2 else x
    return x.expand(*batch, *x.shape[-3:]).reshape(prod(batch), *x.shape[-3:])


def _tma_reads(x: Tensor) -> bool:
    """Whether TMA takes the tensor with its strides."""
    return (x.stride(3) == 1 and x.data_ptr() % 16 == 0
            and all(step > 0 and step * x.itemsize % 16 == 0 for step in x.stride()[:3]))


def _by_tma(q: Tensor, k: Tensor, v: Tensor, views: list[Tensor], batch: tuple, causal: bool, scale: float,
            changes: dict) -> Callable | None:
    """The plan with the kernel for Hopper, or None where copies for TMA would be needed and not pay."""
    (all_, heads, seq_q, dim), seq_k, of_values = views[0].shape, k.shape[-2], v.shape[-1]
    width = next((known for known in HEAD_DIMS if known >= dim and value_dim(known) >= of_values), None)
    if width is None:
        return None
    widths = width, width, value_dim(width)
    copies = [x.shape[-1] != wanted or view.data_ptr() != x.data_ptr() or not _tma_reads(view)
              for x, view, wanted in zip((q, k, v), views, widths)]
    o, lse = _results(q, k, v, batch)
    copy_o = of_values != widths[2] or not _tma_reads(_four(o, batch))
    if (any(copies) or copy_o) and all_ * heads * seq_q * seq_k * width < WORTH_A_COPY:
        return None
    prepared = [_copied(view, wanted) if copy else view for view, copy, wanted in zip(views, copies, widths)]
    wide = (all_, heads, seq_q, widths[2])
    target = q.new_empty(wide) if copy_o else _four(o, batch)
    rows = _four(lse.unsqueeze(-1), batch).squeeze(-1)
    grid, args, meta = hopper.arguments(*prepared, target, rows, zeros(q), programs(q), causal, scale, **changes)
    launch = Launch(q, hopper.kernel, grid, args, meta)
    rests = [at for at, rest in enumerate(has_rest(width)) if rest]     # q, k, v, o once more, by their second descriptors
    shape, strides, rows, steps = o.shape, o.stride(), lse.shape, lse.stride()

    def as_it_is(q: Tensor, k: Tensor, v: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = q.new_empty_strided(shape, strides), q.new_empty_strided(rows, steps, dtype=torch.float32)
        launch(q, k, v, o, lse, zeros(o), *more)
        return o, lse

    if not (any(copies) or copy_o or rests):
        return as_it_is         # the host's time for the usual call: nothing of it asks what to copy

    def plan(q: Tensor, k: Tensor, v: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = q.new_empty_strided(shape, strides), q.new_empty_strided(rows, steps, dtype=torch.float32)
        target = o.new_empty(wide) if copy_o else o
        four = *(_copied(_four(x, batch), wanted) if copy else x for x, copy, wanted in zip((q, k, v), copies, widths)), target
        launch(*four, lse, zeros(o), *more, *(four[at] for at in rests))
        if copy_o:
            o.copy_(target[..., :of_values].reshape(o.shape))
        return o, lse

    return plan


def _copied(x: Tensor, width: int) -> Tensor:
    """A contiguous copy with zeros up to `width`: they add nothing to scores, and columns of zeros to the result."""
    copy = x.new_zeros(*x.shape[:3], width)
    copy[..., :x.shape[3]] = x
    return copy


_PLANS = Plans(_plan)


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.causal, ctx.scale, ctx.count = bool(inputs[3:4] and inputs[3]), inputs[4] if len(inputs) > 4 else None, len(inputs)
    ctx.set_materialize_grads(False)


def _gradients(ctx, do: Tensor | None, dlse: Tensor | None) -> tuple:
    q, k, v, o, lse = ctx.saved_tensors
    if do is None and dlse is None:
        return (None, ) * ctx.count
    do = torch.zeros_like(o) if do is None else do
    return *ATTENTION_BACKWARD(do, q, k, v, o, lse, dlse, ctx.causal, ctx.scale), *[None] * (ctx.count - 3)


def _save_with(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:5], *output)
    ctx.options = (*inputs[5:], *(False, None, None, None, None)[len(inputs) - 5:])
    ctx.count = len(inputs)
    ctx.set_materialize_grads(False)


def _gradients_with(ctx, do: Tensor | None, dlse: Tensor | None) -> tuple:
    q, k, v, sinks, slopes, o, lse = ctx.saved_tensors
    if do is None and dlse is None:
        return (None, ) * ctx.count
    if ctx.needs_input_grad[4]:
        raise NotImplementedError("mimw::attention_with has no derivative of alibi_slopes: give them detached")
    do = torch.zeros_like(o) if do is None else do
    *gradients, dsinks = ATTENTION_WITH_BACKWARD(do, q, k, v, o, lse, dlse, sinks, slopes, *ctx.options)
    return *gradients, None if sinks is None else dsinks, *[None] * (ctx.count - 4)


ATTENTION = Operator("attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> (Tensor, Tensor)",
                     _run, _fake, _save, _gradients, autocast=LOWER)
ATTENTION_WITH = Operator(
    "attention_with(Tensor q, Tensor k, Tensor v, Tensor? sinks, Tensor? alibi_slopes, bool causal=False, float? scale=None, "
    "int? left=None, int? right=None, float? softcap=None) -> (Tensor, Tensor)", _run_with, _fake_with, _save_with, _gradients_with,
    autocast=LOWER)
