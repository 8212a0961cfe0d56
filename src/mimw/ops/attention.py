"""`mimw.ops.attention`: scaled dot product attention on the library's kernel, with a plain one for what TMA does not take.

Input: queries, keys and values. Output: o = softmax(scale q k^T) v and, if asked for, the logarithms of the denominators:

    o = attention(q, k, v, causal=True)                     (batch, heads, length, dim)
    o, lse = attention(q, k, v, return_lse=True)
    torch.ops.mimw.attention(q, k, v, True)                 the operator itself: (o, lse)
    o = attention(q, k, v, window=(128, 0), softcap=30., sinks=sinks)           by torch.ops.mimw.attention_with
    o = attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h, i - j + n])      by torch.ops.mimw.attention_mod
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from mimw.kernels import attention as hopper
from mimw.kernels import plain_attention
from mimw.kernels.attention.changes import BOUNDS, HEADS, SOFTCAP
from mimw.score_mods import ForKernels, ScoreMod, plain, record

from .attention_backward import ATTENTION_BACKWARD, ATTENTION_MOD_BACKWARD, ATTENTION_WITH_BACKWARD, TABLES, as_four, mod_of
from .attention_gradients import check_detached, gradient_of_o, saved
from .by_name import options_by_name
from .contract import Contract, Extents
from .heads_by_tma import by_tma
from .launching import Launch, is_exact, programs
from .notes import another_chip, in_fp32, takes
from .operator import LOWER, Operator
from .planned import Planned

WORTH_A_COPY = 1 << 34  # products from which copying q, k and v for TMA costs less than the plain kernel's slower products
TENSORS = (
    "q: float (..., heads, seq_q, dim) or (seq_q, dim)", "k: =q (..., kv_heads, seq_k, dim) or (seq_k, dim)",
    "v: =q (..., kv_heads, seq_k, value_dim) or (seq_k, value_dim)", "dim > 0 and value_dim > 0 -- heads of width 0 have no scores",
    "kv_heads == 1 or min(k.dim(), v.dim()) > 2 -- k and v must have as many heads", HEADS,
    "-> o: =q (..., heads, seq_q, value_dim) heads q", "-> lse: fp32 (..., heads, seq_q)")
FLOPS = "2 * prod(front) * heads * seq_q * seq_k * (dim + value_dim)"       # as torch counts them, whatever a mask leaves out
CONTRACT = Contract("attention", *TENSORS, flops=FLOPS)
CHANGED = Contract(
    "attention", *TENSORS, "sinks?: float ((heads))", "alibi_slopes?: float (*of_slopes, (heads))",
    "alibi_slopes is None or len(of_slopes) == 0 or of_slopes == front -- slopes are for the heads, or for all that stands in "
    "front of them, too", *BOUNDS, SOFTCAP, flops=FLOPS)
MODIFIED = Contract("attention", *TENSORS, "sinks?: float ((heads))", *TABLES, *BOUNDS, flops=FLOPS)


@options_by_name("mimw.ops.scaled_dot_product_attention takes torch's arguments in torch's order")
def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None, return_lse: bool = False,
              window: int | tuple[int | None, int | None] = (None, None), softcap: float | None = None, sinks: Tensor | None = None,
              alibi_slopes: Tensor | None = None,
              score_mod: Callable[..., Tensor] | ScoreMod | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v, with fp32 scores and sums.

    args:      q           (..., heads, seq_q, dim): bf16, fp16 or fp32, any strides, any extents, also 0; (seq_q, dim) is one head
               k, v        (..., kv_heads, seq_k, dim) and (..., kv_heads, seq_k, value_dim) of q's type; kv_heads divides heads,
                           and head h reads kv head h * kv_heads // heads; the dimensions in front of the heads are broadcast
               causal      query i sees keys up to i + seq_k - seq_q, so that the last query sees all. Of equal lengths that is
                           scaled_dot_product_attention's `is_causal`; of others it is torch's `causal_lower_right`
               scale       of the scores, by default 1 / sqrt(dim)
               return_lse  also the natural logarithms of the softmax's denominators
               window      (left, right): a query at position p = i + seq_k - seq_q sees keys p - left to p + right; None is no
                           bound, causal a right bound of 0; a number is both bounds. Blocks of keys that no query near by sees
                           cost nothing
               softcap     more than 0: softcap tanh(score / softcap) in place of each score. On sm_90 by tanh.approx, whose
                           relative error is up to 2^-11: a capped score s is off by up to |s| / 2048
               sinks       (heads) of bf16, fp16 or fp32: a logit of each head that joins the sum of each row, with no value; lse
                           has it
               alibi_slopes   (heads) or (..., heads) with the dimensions in front of the heads, of these types: slope |p - key| is
                           subtracted from scores, after the soft cap
               score_mod   a function (score, batch, head, q_idx, kv_idx), as torch's flex attention takes it: of the scaled score
                           it makes the one that counts, -inf for a key that a query does not see, beside `causal` and `window`.
                           It is recorded at each call, which takes milliseconds; `mimw.score_mods.record(function)` does that
                           once, also for torch.compile, and says what such a function may do. The batch is its number among all
                           in front of the heads. Not beside softcap and alibi_slopes, which it can say itself
    returns:   o, (..., heads, seq_q, value_dim) of q's type, in memory as q if q is (batch, length, heads, dim) transposed, else
               contiguous; with lse, fp32 (..., heads, seq_q). A query that sees no key gets o = 0 and lse = -inf,
               or the head's sink
    computed:  on sm_90 by `mimw.kernels.attention` for bf16 and fp16, where heads are as wide as it takes and TMA can read them or
               copies are worth making; else by `mimw.kernels.plain_attention`. fp32 obeys torch.get_float32_matmul_precision()
    gradients  of q, k, v and sinks, from those of o and lse, by `mimw.kernels.attention_backward` for bf16 and fp16 on sm_90 with
               heads of up to 128, `wide_attention_backward` with heads of up to 256, else by torch's products; the same bits in
               every run under torch.use_deterministic_algorithms; no second derivative; none of alibi_slopes, and of tensors that a
               score_mod reads: an error on `backward()` where they require one
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types; TypeError for
               options by position; ScoreModError for a score_mod that kernels cannot have
    """
    left, right = (window, window) if isinstance(window, int) else window
    if score_mod is not None:
        torch._check(softcap is None and alibi_slopes is None, lambda: "attention: a score_mod is given beside softcap or "
                     "alibi_slopes; the score_mod can say both")
        mod = record(score_mod, q.device)
        o, lse = ATTENTION_MOD(q, k, v, sinks, *mod.padded(), mod.text, causal, scale, left, right)
    elif left is right is softcap is sinks is alibi_slopes is None:
        o, lse = ATTENTION(q, k, v, causal, scale)
    else:
        o, lse = ATTENTION_WITH(q, k, v, sinks, alibi_slopes, causal, scale, left, right, softcap)
    return (o, lse) if return_lse else o


def _heads(x: Tensor) -> int:
    return x.shape[-3] if x.dim() > 2 else 1


def _plan_with(of: Extents, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, slopes: Tensor | None, causal: bool,
               scale: float | None, left: int | None, right: int | None, softcap: float | None, exact: bool) -> Callable:
    plan = _plan(of, q, k, v, causal, scale, exact, (left, right), softcap, sinks, slopes)
    return lambda q, k, v, *more: plan(q, k, v, *(x.float().contiguous() for x in more if x is not None))


def _plan_mod(of: Extents, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, *given) -> Callable:
    *tables, text, causal, scale, left, right, exact = given
    plan = _plan(of, q, k, v, causal, scale, exact, (left, right), None, sinks, mod=mod_of(text, tables, q, k, of.front))
    return lambda q, k, v, sinks, *tables: plan(q, k, v, *([] if sinks is None else [sinks.float().contiguous()]),
                                                *(plain(x) for x in tables if x is not None))


def _plan(of: Extents, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, exact: bool,
          window: tuple = (None, None), softcap: float | None = None, sinks: Tensor | None = None,
          slopes: Tensor | None = None, mod: ForKernels | None = None) -> Callable:
    left, right = window
    batch, (o, lse) = of.front, of.empty(q)
    if lse.numel() == 0 or of.seq_k == 0:
        return _of_no_keys(of, sinks is not None)
    scale = 1 / sqrt(q.shape[-1]) if scale is None else scale
    views = [as_four(x, batch) for x in (q, k, v)]
    changes = dict(window=window, softcap=softcap, sinks=None if sinks is None else sinks.float().contiguous(),
                   slopes=None if slopes is None else slopes.float().contiguous().view(-1, _heads(q)) if slopes.dim() > 1
                   else slopes.float().contiguous(), mod=mod)
    reach = 0 if causal else right      # from the first queries on: some of them may see no key
    if takes("attention", another_chip(q), in_fp32(q), not scale > 0 and "the scale is not more than 0",
             reach is not None and k.shape[-2] + reach < q.shape[-2] and "there are queries that see no key",
             slopes is not None and q.shape[-2] + k.shape[-2] > hopper.LONGEST_WITH_SLOPES
             and f"slopes are for up to {hopper.LONGEST_WITH_SLOPES} queries and keys together"):
        def make(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, counter: Tensor) -> tuple:
            rows = as_four(lse.unsqueeze(-1), batch).squeeze(-1)
            return hopper.kernel, *hopper.arguments(q, k, v, o, rows, counter, programs(q), causal, scale, **changes)

        work = views[0].shape[:3].numel() * k.shape[-2]
        plan = by_tma(of, (q, k, v), lambda x: as_four(x, batch), lambda width: work * width >= WORTH_A_COPY, make)
        if plan is not None:
            return plan
    four = as_four(o, batch)
    launch = Launch(q, plain_attention.kernel, *plain_attention.arguments(
        *views, four, as_four(lse.unsqueeze(-1), batch).squeeze(-1), causal, scale, exact, **changes))
    as_is = [view.data_ptr() == x.data_ptr() for view, x in zip(views, (q, k, v))]

    def plan(q: Tensor, k: Tensor, v: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = of.empty(q)
        launch(*(x if same else as_four(x, batch) for x, same in zip((q, k, v), as_is)), o, lse, *more)
        return o, lse

    return plan


def _of_no_keys(of: Extents, sunk: bool) -> Callable:
    """The plan where queries see nothing but sinks, if there are any."""

    def plan(q: Tensor, k: Tensor, v: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = of.o.empty(q).zero_(), of.lse.empty(q).fill_(float("-inf"))
        if sunk:
            lse.copy_(more[0][:, None] if lse.dim() > 1 else more[0])
        return o, lse

    return plan


@gradient_of_o
def _gradients(ctx, do: Tensor, dlse: Tensor | None) -> tuple:
    return ATTENTION_BACKWARD(do, *ctx.saved_tensors, dlse, *ctx.options)


@gradient_of_o
def _gradients_with(ctx, do: Tensor, dlse: Tensor | None) -> tuple:
    q, k, v, sinks, slopes, o, lse = ctx.saved_tensors
    check_detached(ctx.needs_input_grad[4:5], "mimw::attention_with has no derivative of alibi_slopes")
    *gradients, dsinks = ATTENTION_WITH_BACKWARD(do, q, k, v, o, lse, dlse, sinks, slopes, *ctx.options)
    return *gradients, None if sinks is None else dsinks


@gradient_of_o
def _gradients_mod(ctx, do: Tensor, dlse: Tensor | None) -> tuple:
    q, k, v, sinks, *tables, o, lse = ctx.saved_tensors
    check_detached(ctx.needs_input_grad[4:8], "mimw::attention_mod has no derivative of tensors that a score_mod reads")
    *gradients, dsinks = ATTENTION_MOD_BACKWARD(do, q, k, v, o, lse, dlse, sinks, *tables, *ctx.options)
    return *gradients, None if sinks is None else dsinks


ATTENTION = Operator("attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> (Tensor, Tensor)",
                     Planned(_plan, is_exact), CONTRACT, saved(3), _gradients, autocast=LOWER)
ATTENTION_WITH = Operator(
    "attention_with(Tensor q, Tensor k, Tensor v, Tensor? sinks, Tensor? alibi_slopes, bool causal=False, float? scale=None, "
    "int? left=None, int? right=None, float? softcap=None) -> (Tensor, Tensor)", Planned(_plan_with, is_exact), CHANGED, saved(5),
    _gradients_with, autocast=LOWER, kept=("sinks", "alibi_slopes"))
ATTENTION_MOD = Operator(
    "attention_mod(Tensor q, Tensor k, Tensor v, Tensor? sinks, Tensor? table0, Tensor? table1, Tensor? table2, Tensor? table3, "
    "str score_mod, bool causal=False, float? scale=None, int? left=None, int? right=None) -> (Tensor, Tensor)",
    Planned(_plan_mod, is_exact), MODIFIED, saved(8), _gradients_mod, autocast=LOWER,
    kept=("sinks", "table0", "table1", "table2", "table3"))
