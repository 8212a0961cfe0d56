"""Written by docs/support/operator_stubs.py, from the operators' contracts: mimw.ops for type checkers and editors.

A tensor is annotated with the types and the shape that the contract gives it (mimw.kernels.contract explains the words,
mimw.ops.contract those of results); `or` stands between the lines of several contracts.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, overload

import torch
from torch import Tensor

from ..score_mods import ScoreMod
from . import distributed as distributed
from .available import Available as Available
from .explain import Explanation as Explanation
from .launching import SimulationWarning as SimulationWarning
from .topk import TopK as TopK

__all__ = [
    "Available",
    "Explanation",
    "SimulationWarning",
    "TopK",
    "addmm",
    "attention",
    "attention_decode",
    "attention_varlen",
    "available",
    "cross_entropy",
    "explain",
    "gather_matmul_scatter",
    "grouped_matmul",
    "layer_norm",
    "lightning_indexer",
    "lightning_indexer_decode",
    "linear_attention",
    "linear_attention_step",
    "linear_cross_entropy",
    "log_softmax",
    "matmul",
    "mla_decode",
    "moe",
    "moe_align",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
    "scaled_mm",
    "simplicial_attention",
    "softmax",
    "sparse_mla",
    "swiglu",
    "topk",
    "topk_selector",
]

def addmm(
    added: Annotated[Tensor, "=c (m|1, n|1) or (n|1) or ()"],
    a: Annotated[Tensor, "bf16|fp16|fp32|fp8 (m, k)"],
    b: Annotated[Tensor, "=a|fp8 (k, n)"],
    beta: float = 1.0,
    alpha: float = 1.0,
    activation: Literal[None, "relu", "gelu", "gelu_tanh", "silu"] = None,
) -> Annotated[Tensor, "=a|bf16 (m, n)"]:
    """act(beta added + alpha a @ b), all of it in fp32 before the result is rounded.

    args:      added       (M, N), or what expands to it: (N), (1, N), (M, 1), (); of the result's type. Not read where beta is 0
               a           (M, K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides, any extents, also 0
               b           (K, N), of a's type (of fp8 the two may differ), any strides
               activation  None, "relu", "gelu" (by erf), "gelu_tanh" or "silu"
    returns:   (M, N), contiguous, of a's type; bf16 for fp8
    computed:  on sm_90 in one launch of `mimw.kernels.gemm` where TMA can read the operands; else by `mimw.ops.matmul` and torch.
               fp32 obeys torch.get_float32_matmul_precision(), as `matmul` does
    gradients  of added, a and b; none of fp8. With an activation the derivative computes the product again
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and activations

    contract:
        operations: 2 * m * n * k
    """

@overload
def attention(
    q: Annotated[Tensor, "float (..., heads, seq_q, dim) or (seq_q, dim)"],
    k: Annotated[Tensor, "=q (..., kv_heads, seq_k, dim) or (seq_k, dim)"],
    v: Annotated[Tensor, "=q (..., kv_heads, seq_k, value_dim) or (seq_k, value_dim)"],
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: Literal[False] = False,
    window: int | tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float ((heads))"] = None,
    alibi_slopes: Annotated[Tensor | None, "float (*of_slopes, (heads))"] = None,
    score_mod: Callable[..., Tensor] | ScoreMod | None = None,
) -> Tensor: ...

@overload
def attention(
    q: Annotated[Tensor, "float (..., heads, seq_q, dim) or (seq_q, dim)"],
    k: Annotated[Tensor, "=q (..., kv_heads, seq_k, dim) or (seq_k, dim)"],
    v: Annotated[Tensor, "=q (..., kv_heads, seq_k, value_dim) or (seq_k, value_dim)"],
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: Literal[True],
    window: int | tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float ((heads))"] = None,
    alibi_slopes: Annotated[Tensor | None, "float (*of_slopes, (heads))"] = None,
    score_mod: Callable[..., Tensor] | ScoreMod | None = None,
) -> tuple[Tensor, Tensor]: ...

@overload
def attention(
    q: Annotated[Tensor, "float (..., heads, seq_q, dim) or (seq_q, dim)"],
    k: Annotated[Tensor, "=q (..., kv_heads, seq_k, dim) or (seq_k, dim)"],
    v: Annotated[Tensor, "=q (..., kv_heads, seq_k, value_dim) or (seq_k, value_dim)"],
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    window: int | tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float ((heads))"] = None,
    alibi_slopes: Annotated[Tensor | None, "float (*of_slopes, (heads))"] = None,
    score_mod: Callable[..., Tensor] | ScoreMod | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
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

    contract:
        dim > 0 and value_dim > 0 -- heads of width 0 have no scores
        kv_heads == 1 or min(k.dim(), v.dim()) > 2 -- k and v must have as many heads
        kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q
        alibi_slopes is None or len(of_slopes) == 0 or of_slopes == front -- slopes are for the heads, or for all that stands in
            front of them, too
        left >= 0 -- the left bound of the window must be 0 or more keys, or None for no bound
        right >= 0 -- the right bound of the window must be 0 or more keys, or None for no bound
        softcap > 0 -- it must be more than 0, or None for none
        -> o: =q (..., heads, seq_q, value_dim) heads q
        -> lse: fp32 (..., heads, seq_q)
        operations: 2 * prod(front) * heads * seq_q * seq_k * (dim + value_dim)
    """

@overload
def attention_decode(
    q: Annotated[Tensor, "float (batch, queries, heads, dim)"],
    k_cache: Annotated[Tensor, "=q|e4m3 (pages, page_size, kv_heads, dim)"],
    v_cache: Annotated[Tensor, "=k_cache (pages, page_size, kv_heads, value_dim)"],
    cache_seqlens: Annotated[Tensor | int, "int (batch)"],
    *,
    page_table: Annotated[Tensor | None, "int (batch, most_pages)"] = None,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float (heads)"] = None,
    splits: int | None = None,
    k_scale: Annotated[Tensor | float | None, "float (kv_heads|1)"] = None,
    v_scale: Annotated[Tensor | float | None, "float (kv_heads|1)"] = None,
    return_lse: Literal[False] = False,
) -> Tensor: ...

@overload
def attention_decode(
    q: Annotated[Tensor, "float (batch, queries, heads, dim)"],
    k_cache: Annotated[Tensor, "=q|e4m3 (pages, page_size, kv_heads, dim)"],
    v_cache: Annotated[Tensor, "=k_cache (pages, page_size, kv_heads, value_dim)"],
    cache_seqlens: Annotated[Tensor | int, "int (batch)"],
    *,
    page_table: Annotated[Tensor | None, "int (batch, most_pages)"] = None,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float (heads)"] = None,
    splits: int | None = None,
    k_scale: Annotated[Tensor | float | None, "float (kv_heads|1)"] = None,
    v_scale: Annotated[Tensor | float | None, "float (kv_heads|1)"] = None,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...

@overload
def attention_decode(
    q: Annotated[Tensor, "float (batch, queries, heads, dim)"],
    k_cache: Annotated[Tensor, "=q|e4m3 (pages, page_size, kv_heads, dim)"],
    v_cache: Annotated[Tensor, "=k_cache (pages, page_size, kv_heads, value_dim)"],
    cache_seqlens: Annotated[Tensor | int, "int (batch)"],
    *,
    page_table: Annotated[Tensor | None, "int (batch, most_pages)"] = None,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float (heads)"] = None,
    splits: int | None = None,
    k_scale: Annotated[Tensor | float | None, "float (kv_heads|1)"] = None,
    v_scale: Annotated[Tensor | float | None, "float (kv_heads|1)"] = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v of the last queries of each sequence, with fp32 scores and sums. Layouts are those of
    FlashAttention's `flash_attn_with_kvcache` without new keys and with causal=True: write the new keys and values into the
    caches first.

    args:      q           (batch, queries, heads, dim): bf16, fp16 or fp32, any strides
               k_cache, v_cache   (batch, length, kv_heads, dim) and (..., value_dim), or with a page table (pages, page_size,
                           kv_heads, dim); of q's type or e4m3, any strides; kv_heads divides heads, and head h reads kv head h *
                           kv_heads // heads
               cache_seqlens   (batch) int32 or int64 on the device, or one number for all: how many keys of each sequence
                           count, those of the new queries among them. Query i sees keys up to i + length - queries. The host
                           never waits for it, so a captured graph may be replayed with others. A length above what the cache
                           holds counts as that, one below 0 as 0
               page_table  (batch, most pages of a sequence) int32 or int64: page j of a sequence has its keys from j *
                           page_size on. Sequences may share pages. Entries behind a sequence's keys are not looked at: they
                           may be anything; no NaN that lies in a page behind the last key matters
               scale       of the scores, by default 1 / sqrt(dim)
               window      (left, right): a query sees so many keys before and after its own position; None is no bound, and
                           what is after a query's own position it never sees. Entries of the page table in front of the window
                           may be anything
               softcap     more than 0: softcap tanh(score / softcap) in place of each score; as in `attention`
               sinks       (heads) of bf16, fp16 or fp32: a logit of each head that joins the sum of each row, with no value
               splits      into so many parts at most the keys of a sequence are cut; by default all multiprocessors get equal
                           shares of all keys. With 1 a sequence's result is the same to the bit whatever else is in the batch
               k_scale, v_scale   of caches of e4m3: what keys and values are multiplied by, more than 0: a tensor of kv_heads
                           numbers, or one for all heads, as a tensor or a number; 1 by default. Products are of fp16 then, of
                           fp32 where q is fp32: queries of bf16 beyond 65504 count as that
               return_lse  also the natural logarithms of the softmax's denominators
    returns:   o, (batch, queries, heads, value_dim) of q's type, contiguous; with lse, fp32 (batch, heads, queries). A query
               that sees no key, as in an empty sequence (length 0), gets o = 0 and lse = -inf, or the head's sink. Results are
               the same to the bit from run to run for the same lengths
    computed:  on sm_90 by `mimw.kernels.attention_decode` for bf16 and fp16, heads of up to 256, pages of 16, 32, 64, 128
               or 256 keys, where TMA can read the caches, which are read once for each 128 rows (queries times heads that share a
               head of keys); else by `mimw.kernels.plain_attention_decode`. fp32 obeys torch.get_float32_matmul_precision()
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types. There is
               no derivative

    contract:
        fp8(k_cache) == (k_scale is not None) and (k_scale is None) == (v_scale is None) -- caches of e4m3 have both scales, others
            none
        k_scale is None or len(k_scale) == len(v_scale) -- there must be as many scales of keys as of values
        dim > 0 and value_dim > 0 -- heads of width 0 have no scores
        kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q
        page_table is not None or pages == batch -- without a page table there must be as many caches as sequences
        left >= 0 -- the left bound of the window must be 0 or more keys, or None for no bound
        splits >= 1 -- the number of splits must be 1 or more, or None
        softcap > 0 -- it must be more than 0, or None for none
        -> o: =q (batch, queries, heads, value_dim)
        -> lse: fp32 (batch, heads, queries)
    """

@overload
def attention_varlen(
    q: Annotated[Tensor, "float (total_q, heads, dim)"],
    k: Annotated[Tensor, "=q (total_k, kv_heads, dim)"],
    v: Annotated[Tensor, "=q (total_k, kv_heads, value_dim)"],
    cu_seqlens_q: Annotated[Tensor, "i32 (sequences + 1)"],
    cu_seqlens_k: Annotated[Tensor, "i32 (sequences + 1)"],
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float (heads)"] = None,
    alibi_slopes: Annotated[Tensor | None, "float (heads) or (sequences, heads)"] = None,
    return_lse: Literal[False] = False,
) -> Tensor: ...

@overload
def attention_varlen(
    q: Annotated[Tensor, "float (total_q, heads, dim)"],
    k: Annotated[Tensor, "=q (total_k, kv_heads, dim)"],
    v: Annotated[Tensor, "=q (total_k, kv_heads, value_dim)"],
    cu_seqlens_q: Annotated[Tensor, "i32 (sequences + 1)"],
    cu_seqlens_k: Annotated[Tensor, "i32 (sequences + 1)"],
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float (heads)"] = None,
    alibi_slopes: Annotated[Tensor | None, "float (heads) or (sequences, heads)"] = None,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...

@overload
def attention_varlen(
    q: Annotated[Tensor, "float (total_q, heads, dim)"],
    k: Annotated[Tensor, "=q (total_k, kv_heads, dim)"],
    v: Annotated[Tensor, "=q (total_k, kv_heads, value_dim)"],
    cu_seqlens_q: Annotated[Tensor, "i32 (sequences + 1)"],
    cu_seqlens_k: Annotated[Tensor, "i32 (sequences + 1)"],
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: Annotated[Tensor | None, "float (heads)"] = None,
    alibi_slopes: Annotated[Tensor | None, "float (heads) or (sequences, heads)"] = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v in each of the packed sequences, with fp32 scores and sums; the host waits for nothing.

    args:      q           (total_q, heads, dim): bf16, fp16 or fp32, any strides
               k, v        (total_k, kv_heads, dim) and (total_k, kv_heads, value_dim) of q's type, any strides; kv_heads divides
                           heads, and head h reads kv head h * kv_heads // heads
               cu_seqlens_q, cu_seqlens_k   (sequences + 1) int32, ascending from 0 on: sequence s has the rows from cu_seqlens[s]
                           up to cu_seqlens[s + 1], of queries and of keys, and may have none of either. Their values are not
                           checked: that would wait for the device
               max_seqlen_q, max_seqlen_k   no sequence is longer: queries behind max_seqlen_q may stay uncomputed
               causal      query i of a sequence sees its keys up to i + length_k - length_q, so that the last query sees all
               scale       of the scores, by default 1 / sqrt(dim)
               window, softcap, sinks   as `mimw.ops.attention` has them, in each sequence
               alibi_slopes   (heads) or (sequences, heads)
               return_lse  also the natural logarithms of the softmax's denominators
    returns:   o, (total_q, heads, value_dim) of q's type, contiguous; with lse, fp32 (heads, total_q). A query that sees no key
               gets o = 0 and lse = -inf, or the head's sink. Rows in no sequence, behind cu_seqlens_q[-1], are not written: they
               hold anything. The bits are the same in every run
    computed:  on sm_90 in one launch of `mimw.kernels.attention_varlen` for bf16 and fp16, where heads are as wide as it takes and
               TMA can read them or copies are worth making; else by `mimw.kernels.plain_attention`
    gradients  of q, k, v and sinks, from those of o and lse, by `mimw.kernels.attention_varlen_backward` for bf16 and fp16 on sm_90
               with heads of up to 128, else, and for the same bits in every run under torch.use_deterministic_algorithms, by
               `mimw.kernels.plain_attention_backward`; 0 for rows in no sequence; none of alibi_slopes; no second derivative
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types

    contract:
        dim > 0 and value_dim > 0 -- heads of width 0 have no scores
        heads == kv_heads or kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q
        sequences >= 0 -- cu_seqlens_q and cu_seqlens_k have one number more than there are sequences
        max_seqlen_q >= 0 -- lengths are 0 or more
        max_seqlen_k >= 0 -- lengths are 0 or more
        left >= 0 -- the left bound of the window must be 0 or more keys, or None for no bound
        right >= 0 -- the right bound of the window must be 0 or more keys, or None for no bound
        softcap > 0 -- it must be more than 0, or None for none
        -> o: =q (total_q, heads, value_dim)
        -> lse: fp32 (heads, total_q)
    """

def available(
    target: str | None = None,
) -> Available:
    """The operators of `mimw.ops` on a chip.

    args:      target   as "sm_90a", "sm_80" or "gfx950"; by default that of the GPU in use, without one that of the simulator
    returns:   operator -> `Row`. Operators of integers have the types that their rows may have, or none
    errors:    TargetError for another chip
    """

def cross_entropy(
    logits: Annotated[Tensor, "float (rows, classes)"],
    target: Annotated[Tensor, "int (rows)"],
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    inplace_backward: bool = False,
    weight: Tensor | None = None,
    softcap: float | None = None,
) -> Tensor:
    """log(sum of exp(logits)) - logits[target] of each row, as torch.nn.functional.cross_entropy of classes.

    args:      logits           (rows, classes), (classes) or (rows, classes, ...): bf16, fp16 or fp32, any strides
               target           (rows), () or (rows, ...): int64 or int32. Elsewhere than in a row: of the CPU an error; on a GPU
                                a loss that is NaN, as the host does not wait, where torch's device assertion ends the process
               ignore_index     a target whose row has no loss and no gradient
               reduction        "mean" of the rows that are not ignored, "sum" or "none"
               label_smoothing  the weight that is spread over all classes, 0 to 1
               z_loss           adds z_loss times the square of the logarithm to each loss
               softcap          logits become softcap tanh(logits / softcap) first, as Gemma 2 has them; None: they do not
               inplace_backward  the gradient, where one is wanted, goes into the memory of the logits: of bf16 and fp32 in the
                                forward launch, which reads and writes each logit once, so that backward only multiplies where
                                the loss's gradient is not 1; of fp16, whose small gradients need the scale of the loss before
                                they are rounded, in the backward launch. backward runs once; autograd refuses others that want
                                the logits' values. Under torch.compile the gradient has memory of its own
               weight           (classes): rows count by the weight of their class, and the mean is over these weights; by torch's
                                sums around the kernel, which with label_smoothing read the logits once more
    returns:   fp32, of no dimensions, or of target's shape; sums and exponents are of fp32, under autocast, too
    computed:  by `mimw.kernels.cross_entropy`: on sm_90 many long rows by bulk copies into a ring, few long ones by clusters; one
               read of the logits forward, one read and one write backward. With classes elsewhere than last of a copy
    gradients  of the logits and of weight, the first
    errors:    IndexError for a target on the CPU that is no class, with its row; RuntimeError where shapes or devices do not fit,
               and in place for a leaf that requires grad, a view of one, and logits whose elements share memory;
               NotImplementedError for other types, among them classes given by their probabilities, and for weight with z_loss,
               softcap or inplace_backward; ValueError for other reductions and smoothings, and a softcap that is not above 0

    contract:
        classes > 0 -- there must be one class at least
        -> losses: fp32 (rows)
        -> lse: fp32 (rows)
    """

def explain(
    operator: Callable,
    *args: Any,
    target: str | None = None,
    **options: Any,
) -> Explanation:
    """The launches of a call with their configurations, what speaks against other kernels, and what torch computes of it. Nothing
    is computed, compiled or launched, and no plan is kept.

    args:      operator        a function of `mimw.ops`, or of `mimw.ops.distributed` in a process group: then of the rank that
                               asks, which other ranks need not do
               args, options   of the call; tensors may be of a GPU, the CPU, torch's device `meta`, or fake
               target          the chip, as "sm_90a", "sm_80" or "gfx950"; by default that of the tensors: of the CPU and of `meta`
                               the one that is simulated, with its few programs
    returns:   an `Explanation`: `.line` is the answer in a line, `str()` has all, `.json()` is plain data. Of the forward pass;
               configurations that were measured for several GPUs of one chip are those of the GPU in use, if there is one
    errors:    those of the call; TargetError for another chip; RuntimeError where the kernels go by numbers in a tensor that has no
               data, as the sizes of groups
    """

def gather_matmul_scatter(
    a: Annotated[Tensor, "bf16|fp16|fp32|fp8 (m, k)"],
    b: Annotated[Tensor, "=a|fp8 (k, n)"],
    source: Annotated[Tensor, "int (r)"],
    target: Annotated[Tensor, "int (r)"],
    rows: int | None = None,
    out: Annotated[Tensor | None, "bf16|fp16|fp32|fp8 (rows, n)"] = None,
) -> Tensor:
    """out[target[i]] = a[source[i]] @ b for each i, with fp32 sums.

    args:      a       (M, K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides
               b       (K, N) of a's type (of fp8 the two may differ), any strides
               source  (R), int32 or int64: rows of a; one outside, or negative, counts as a row of zeros
               target  (R), int32 or int64: rows of the result; one outside, or negative, is left out. Of equal ones any may win
               rows    of the result, by default M
               out     (rows, N) to write into, any strides: rows that `target` does not name stay. By default a new tensor of a's
                       type (bf16 for fp8), these rows 0
    returns:   the result, `out` if that is given
    computed:  on sm_90 by `mimw.kernels.gather_matmul_scatter` where TMA can read a and b and write the result; else by
               `mimw.kernels.plain_matmul`, as fp32 where torch.get_float32_matmul_precision() is "highest"
    gradients  of a and b, where `out` is not given; `target` must name no row twice
    errors:    RuntimeError where extents, types or devices do not fit, and for an `out` that shares memory with another argument or
               within itself; NotImplementedError for other types

    contract:
        operations: 2 * r * n * k
    """

def grouped_matmul(
    a: Annotated[Tensor, "bf16|fp16|fp32|fp8 (m, k)"],
    b: Annotated[Tensor, "=a|fp8 (groups, k, n)"],
    ends: Annotated[Tensor, "i32 (groups)"],
    out_dtype: Annotated[torch.dtype | None, "bf16|fp16|fp32|fp8"] = None,
) -> Annotated[Tensor, "out_dtype|=a|bf16 (m, n)"]:
    """a[ends[g - 1] : ends[g]] @ b[g] for each group g, with fp32 sums.

    args:      a          (M, K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides
               b          (G, K, N), of a's type (of fp8 the two may differ), any strides
               ends       (G) int32, ascending, from 0 to M: the row behind each group's last one. Their values are not checked:
                          that would wait for the device
               out_dtype  of the result: any of these types, by default a's; bf16 for fp8
    returns:   (M, N), contiguous; rows behind the last group are 0
    computed:  on sm_90 in one launch of `mimw.kernels.grouped_gemm` where TMA can read the operands, and the host waits for
               nothing; else group by group by `mimw.ops.matmul`, for which the host waits for `ends`. fp32 obeys
               torch.get_float32_matmul_precision(), as `matmul` does
    gradients  of a and b; none of fp8. That of b waits for `ends`
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types

    contract:
        operations: 2 * m * n * k
    """

@overload
def layer_norm(
    x: Annotated[Tensor, "float (*rows, *n[dims])"],
    normalized_shape: Sequence[int] | int,
    weight: Annotated[Tensor | None, "float (*n)"] = None,
    bias: Annotated[Tensor | None, "float (*n)"] = None,
    eps: float = 1e-05,
    residual: None = None,
) -> Tensor: ...

@overload
def layer_norm(
    x: Annotated[Tensor, "float (*rows, *n[dims])"],
    normalized_shape: Sequence[int] | int,
    weight: Annotated[Tensor | None, "float (*n)"] = None,
    bias: Annotated[Tensor | None, "float (*n)"] = None,
    eps: float = 1e-05,
    *,
    residual: Tensor,
) -> tuple[Tensor, Tensor]: ...

@overload
def layer_norm(
    x: Annotated[Tensor, "float (*rows, *n[dims])"],
    normalized_shape: Sequence[int] | int,
    weight: Annotated[Tensor | None, "float (*n)"] = None,
    bias: Annotated[Tensor | None, "float (*n)"] = None,
    eps: float = 1e-05,
    residual: Annotated[Tensor | None, "float (*rows, *n)"] = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) weight + bias over the last dimensions, as torch.nn.functional.layer_norm.

    args:      x                 (..., *normalized_shape): bf16, fp16 or fp32, any strides, any extents, also 0
               normalized_shape  the last dimensions of x, or the only last one as a number
               weight, bias      of that shape, of any of these types, or None
               eps               added to the variance
               residual          of x's shape, of any of these types: x + residual is normalised, rounded to the wider of the types
    returns:   y of x's shape and type, contiguous; with a residual (y, x + residual)
    computed:  by `mimw.kernels.norm`, with statistics in fp32: on sm_90 many long rows by bulk copies into a ring, few long ones by
               clusters
    gradients  of x, residual, weight and bias, the same in every run; second derivatives, and those of them, by torch's
               operations
    errors:    RuntimeError where shapes or devices do not fit each other; NotImplementedError for other types

    contract:
        -> y: =x (*rows, *n)
        -> mean: fp32 (*rows)
        -> rstd: fp32 (*rows)
        -> total: =x+residual (*rows, *n)
    """

def lightning_indexer(
    q: Annotated[Tensor, "e4m3|bf16|fp16 (S, H, D)"],
    k: Annotated[Tensor, "=q (T, D)"],
    weights: Annotated[Tensor, "float (S, H)"],
    k_scale: Annotated[Tensor | None, "fp32 (T)"] = None,
    starts: Annotated[Tensor | None, "int (S)"] = None,
    ends: Annotated[Tensor | None, "int (S)"] = None,
    causal: bool = False,
    fill: bool = True,
    out_dtype: Annotated[torch.dtype | None, "fp32|bf16"] = None,
    topk: int | None = None,
) -> Annotated[Tensor, "out_dtype|fp32 (S, T)"]:
    """scores[s, t] = k_scale[t] sum_h weights[s, h] relu(q[s, h] . k[t]); with `topk` the places of each query's largest.

    args:      q        (S, H, D): e4m3, bf16 or fp16, any strides; a scale of q goes into the weights
               k        (T, D) of q's type, any strides
               weights  (S, H): bf16, fp16 or fp32; they may be negative
               k_scale  (T) fp32, by default 1
               starts, ends   (S), int32 or int64: query s looks at keys starts[s] .. ends[s], cut to 0 and T, as of packed
                        sequences; by default from 0 on, and up to T
               causal   without `ends`: query s looks at keys up to its own, s + T - S
               fill     scores of other keys are -inf; else they are not written and may be anything
               out_dtype   fp32 by default, or bf16
               topk     0 to 16384: give the places of the topk largest, by `topk_selector`, and no scores
    returns:   (S, T) of out_dtype, contiguous; with topk int32 (S, topk): keys in any order, then -1 where a query looks at fewer
    computed:  on sm_90 by `mimw.kernels.lightning_indexer` for 8, 16, 32, 64 or 128 heads of 32, 64 or 128 columns; else by
               `mimw.kernels.plain_lightning_indexer`, where products of e4m3 are those of fp16 on AMD. Sums over heads are fp32;
               those over the columns of e4m3 have about 14 bits on sm_90's tensor cores. A NaN of q or k is one of the scores
    errors:    RuntimeError where shapes or devices do not fit, or topk is out of range; NotImplementedError for other types. There
               is no derivative

    contract:
        H > 0 and D > 0 -- there must be heads, and columns
        operations: 2 * S * T * H * D
    """

def lightning_indexer_decode(
    q: Annotated[Tensor, "e4m3|bf16|fp16 (B, S, H, D)"],
    cache: Annotated[Tensor, "=q (pages, page, D)"],
    weights: Annotated[Tensor, "float (B, S, H)"],
    lengths: Annotated[Tensor, "int (B)"],
    page_table: Annotated[Tensor, "int (B, most)"],
    scales: Annotated[Tensor | None, "fp32 (pages, page)"] = None,
    fill: bool = True,
    out_dtype: Annotated[torch.dtype | None, "fp32|bf16"] = None,
    topk: int | None = None,
) -> Annotated[Tensor, "out_dtype|fp32 (B, S, most * page)"]:
    """The scores of the last queries of each sequence, keys in pages: query i of n keys looks at those up to i + n - S.

    args:      q        (B, S, H, D): e4m3, bf16 or fp16, any strides
               cache    (pages, page, D) of q's type, any strides, as a view of a cache whose pages have keys, then scales
               weights  (B, S, H): bf16, fp16 or fp32
               lengths  (B), int32 or int64, on the device: keys of each sequence, the new ones among them; below 0 counts as 0, and
                        more than the table's pages hold as that. The host never waits for it
               page_table  (B, most), int32 or int64: page j of a sequence has its keys from j * page on. Entries behind its keys
                        are not looked at
               scales   (pages, page) fp32, any strides; by default 1
               fill, out_dtype   as in `lightning_indexer`
               topk     as there: places in the sequence, of each query
    returns:   (B, S, most * page) of out_dtype, contiguous; with topk int32 (B, S, topk)
    computed:  on sm_90 by `mimw.kernels.lightning_indexer` for heads as above and pages of 16, 32, 64, 128 or 256 keys, where
               TMA can read cache and scales; else by `mimw.kernels.plain_lightning_indexer`
    errors:    as above

    contract:
        H > 0 and D > 0 -- there must be heads, and columns
        operations: 2 * B * S * most * page * H * D
    """

def linear_attention(
    q: Annotated[Tensor, "float (B, T, H, K)"],
    k: Annotated[Tensor, "=q (B, T, H, K)"],
    v: Annotated[Tensor, "=q (B, T, HV, V)"],
    g: Annotated[Tensor | None, "float (B, T, HV) or (B, T, HV, K)"] = None,
    beta: Annotated[Tensor | None, "float (B, T, HV)"] = None,
    scale: float | None = None,
    initial_state: Annotated[Tensor | None, "float (states, HV, K, V)"] = None,
    output_final_state: bool = False,
    cu_seqlens: Annotated[Tensor | None, "int (ends)"] = None,
    use_qk_l2norm: bool = False,
    A_log: Annotated[Tensor | None, "float (HV)"] = None,
    dt_bias: Annotated[Tensor | None, "float (HV) or (HV, K)"] = None,
    lower_bound: float | None = None,
    use_gate: bool = False,
    use_beta_sigmoid: bool = False,
    allow_neg_eigval: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """(o, final states): per head of v, S <- exp(g_t) S + k_t u_t^T and o_t = scale S^T q_t, with u_t = v_t, or with beta
    u_t = beta_t (v_t - (exp(g_t) S)^T k_t).

    args:      q, k           (B, T, H, K): bf16, fp16 or fp32, any strides
               v              (B, T, HV, V) of q's type; H divides HV, and head h of v reads head h * H // HV of q and k
               g              (B, T, HV) or (B, T, HV, K), any of these types: logarithms of decays, at most 0 (larger
                              ones are computed with, and may overflow); None is no decay
               beta           (B, T, HV), any of these types: the delta rule's weights; None is no delta rule
               scale          of the outputs, by default K ** -0.5
               initial_state  (N, HV, K, V), any of these types, best fp32: the state before each sequence; None is 0. N is B,
                              or the number of packed sequences
               output_final_state   whether the states behind the last rows are wanted
               cu_seqlens     (N + 1) int32 or int64, ascending from 0 to at most T, with B = 1: sequence n has the rows
                              from cu_seqlens[n] to before cu_seqlens[n + 1], maybe none, and its own state. The host waits for
                              the numbers, once a tensor: one that a kernel of yours writes anew must come as another tensor
               use_qk_l2norm  q and k are divided by sqrt(their sum of squares + 1e-6) first, as fla has it: in fp32, on the
                              way, and for gradients as rows rounded to their type
               use_gate       g is raw, and gates are made of it on the way, as fla's kernels make them (`use_gate_in_kernel`):
                              -exp(A_log) softplus(g + dt_bias), or with a lower_bound, below 0, lower_bound sigmoid(exp(A_log)
                              (g + dt_bias)), in fp32; then g may have any sign
               A_log          (HV): logarithms of rates; None is 0
               dt_bias        (HV), or for gates of columns (HV, K); None is 0
               use_beta_sigmoid    beta is raw, and its sigmoid is the weight; with allow_neg_eigval twice that
    returns:   o (B, T, HV, V) of q's type, contiguous, 0 in rows of no sequence; the states (N, HV, K, V) in fp32, or None
    computed:  on sm_90 by `mimw.kernels.linear_attention` for bf16 and fp16, 64, 128 or 256 columns of keys and of values,
               gradients by `mimw.kernels.linear_attention_backward`; else by torch's products in fp32, chunks of 64 rows at
               once and their states one after the other
    gradients  of q, k, v, g, beta, initial_state, A_log and dt_bias, from those of o and the final states; no second derivative
    errors:    RuntimeError where shapes or devices do not fit, and for cu_seqlens that do not ascend from 0 to at most T, with the
               numbers; NotImplementedError for other types

    contract:
        K > 0 and V > 0 -- heads of width 0 have no state
        HV == H or H > 0 and HV % H == 0 -- heads of q and k must divide those of v
        cu_seqlens is None or B == 1 -- packed sequences are a batch of 1
        cu_seqlens is None or ends > 0 -- cu_seqlens has one number more than there are sequences
        not use_gate or g is not None -- with use_gate there must be a g to make gates of
        use_gate or A_log is None and dt_bias is None and lower_bound is None -- A_log, dt_bias and lower_bound make gates, which
            use_gate=True asks for
        lower_bound < 0 -- lower_bound must be below 0, as logarithms of gates are
        dt_bias is None or len(dt_bias.shape) == len(g.shape) - 2 -- gates of shape (B, T, HV) take biases (HV), and by key (HV, K)
        not use_beta_sigmoid or beta is not None -- with use_beta_sigmoid there must be a beta
        use_beta_sigmoid or not allow_neg_eigval -- allow_neg_eigval doubles sigmoids, which use_beta_sigmoid=True asks for
        -> o: =q (B, T, HV, V)
        -> final_state: fp32 (sequences, HV, K, V) if output_final_state
        operations: 4 * B * T * HV * (K * V + 32 * (K + V))
    """

def linear_attention_step(
    q: Annotated[Tensor, "float (N, H, K)"],
    k: Annotated[Tensor, "=q (N, H, K)"],
    v: Annotated[Tensor, "=q (N, HV, V)"],
    state: Annotated[Tensor, "float (slots, HV, K, V)"],
    g: Annotated[Tensor | None, "float (N, HV) or (N, HV, K)"] = None,
    beta: Annotated[Tensor | None, "float (N, HV)"] = None,
    indices: Annotated[Tensor | None, "int (N)"] = None,
    *,
    scale: float | None = None,
    use_qk_l2norm: bool = False,
    A_log: Annotated[Tensor | None, "float (HV)"] = None,
    dt_bias: Annotated[Tensor | None, "float (HV) or (HV, K)"] = None,
    lower_bound: float | None = None,
    use_gate: bool = False,
    use_beta_sigmoid: bool = False,
    allow_neg_eigval: bool = False,
) -> Annotated[Tensor, "=q (N, HV, V)"]:
    """o of one token: per head of v, S <- exp(g) S + k u^T in place and o = scale S^T q, with u = v, or with beta
    u = beta (v - (exp(g) S)^T k), as `mimw.ops.linear_attention` has it for sequences.

    args:      q, k           (N, H, K): bf16, fp16 or fp32, any strides
               v              (N, HV, V) of q's type; H divides HV, and head h of v reads head h * H // HV of q and k
               state          (N, HV, K, V), or with indices a pool (slots, HV, K, V), any of these types, best fp32, any strides;
                              it is written. Fastest where columns of V, or of K, lie side by side
               g              (N, HV) or (N, HV, K): logarithms of decays; None is no decay
               beta           (N, HV): the delta rule's weights; None is no delta rule
               indices        (N) int32 or int64: the state of each sequence. No two may have the same; one outside of the pool, as
                              -1, is none: its o is 0
               scale          of the outputs, by default K ** -0.5
               use_qk_l2norm  q and k are divided by sqrt(their sum of squares + 1e-6) first
               A_log, dt_bias, lower_bound, use_gate, use_beta_sigmoid, allow_neg_eigval   g and beta are raw, and gates and betas
                              are made of them, as `mimw.ops.linear_attention` has it
    returns:   o (N, HV, V) of q's type, contiguous
    computed:  by `mimw.kernels.linear_attention_step` in fp32, plain Triton, one launch
    errors:    RuntimeError where shapes, types or devices do not fit, and for a state that may not be written in place;
               NotImplementedError for other types. There is no derivative

    contract:
        K > 0 and V > 0 -- heads of width 0 have no state
        HV == H or H > 0 and HV % H == 0 -- heads of q and k must divide those of v
        indices is not None or slots == N -- without indices there must be one state for each sequence
        not use_gate or g is not None -- with use_gate there must be a g to make gates of
        use_gate or A_log is None and dt_bias is None and lower_bound is None -- A_log, dt_bias and lower_bound make gates, which
            use_gate=True asks for
        lower_bound < 0 -- lower_bound must be below 0, as logarithms of gates are
        dt_bias is None or len(dt_bias.shape) == len(g.shape) - 1 -- gates of shape (N, HV) take biases (HV), and by key (HV, K)
        not use_beta_sigmoid or beta is not None -- with use_beta_sigmoid there must be a beta
        use_beta_sigmoid or not allow_neg_eigval -- allow_neg_eigval doubles sigmoids, which use_beta_sigmoid=True asks for
        operations: 6 * N * HV * K * V
    """

def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Annotated[Tensor, "int (rows)"],
    *,
    linear_bias: Tensor | None = None,
    weight: Annotated[Tensor | None, "=x (classes, hidden)"] = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    accum_dtype: torch.dtype | None = None,
    group: Any = None,
    num_classes: int | None = None,
) -> Tensor:
    """`cross_entropy(input linear_weight^T + linear_bias, target)`, of logits that never stand in memory as a whole.

    args:      input          (..., hidden): bf16, fp16, fp32
               linear_weight  (classes, hidden) of input's type; linear_bias (classes)
               target         (...): int64 or int32, classes. Another target has a loss that is NaN, on the CPU an IndexError
               weight         (classes): rows count by the weight of their target, and "mean" is over these weights
               reduction      "mean" of the rows that are not ignored, "sum" or "none"
               ignore_index   a target whose row counts nothing
               label_smoothing   the weight that is spread over all classes, 0 to 1
               z_loss         adds z_loss times the square of the logarithm of the sum of exp(logits) to each loss
               softcap        logits become softcap tanh(logits / softcap) first, as Gemma 2 has them; None: they do not
               accum_dtype    in which the weight's gradient is summed over pieces: fp32, the default, or bf16 for a weight of bf16:
                              the least memory, by rounding the sum once a piece
               group          each rank has a part of the classes, as torch.chunk cuts them (`linear_weight` and `linear_bias` are
                              its rows), and all have the same input and target: a process group, its name, or a DeviceMesh of one
                              dimension. Loss and input's gradient are the whole ones, the same at all ranks
               num_classes    of all ranks; by default as many at each rank as here
    returns:   fp32, of no dimensions, or of target's shape; under autocast products are of the region's type
    computed:  without gradients: on sm_90 by `mimw.kernels.linear_cross_entropy`, of logits that are not rounded. With gradients,
               in pieces of rows (`mimw.ops.linear_pieces.rows_of`): logits of input's type by `mimw.ops.matmul`, loss and gradient
               of the logits in their place, gradients of input and weight by two more products, the latter added up in the
               epilogue of its product. With reduction="none" and gradients, or a weight= that requires one, from whole logits
    memory     besides input, weight and their gradients with bf16 sums a fifth of these, for a piece of logits; with fp32 sums of a
               16-bit weight as much as the weight twice: for logits, and for the sum, which becomes the gradient in its place.
               Where backward keeps the graph, gradients once more. Forward alone 4 bytes a row for each 128 or 256 classes
    gradients  of input, linear_weight and linear_bias, computed with the loss, those of bf16 rounded with it, so that backward only
               multiplies; no second one
    errors:    RuntimeError where shapes or devices do not fit; NotImplementedError for other types, and for options that do not go
               together, which are named; ValueError for other reductions, smoothings and soft caps

    contract:
        classes > 0 -- there must be one class at least
        -> loss: fp32 ()
        -> dx: kept (rows, hidden) if of_x
        -> dw: kept (classes, hidden) if of_weight
        -> db: fp32 (classes) if of_bias
        operations: 2 * rows * classes * hidden * (1 + of_x + of_weight)
    """

def log_softmax(
    x: Annotated[Tensor, "float (*any)"],
    dim: int,
    dtype: Annotated[torch.dtype | None, "float"] = None,
) -> Annotated[Tensor, "dtype|=x (*any)"]:
    """The logarithm of `softmax`, x - log of the sum of exp(x), as torch.log_softmax; arguments and errors as `softmax`.
    """

def matmul(
    a: Annotated[Tensor, "bf16|fp16|fp32|fp8 (..., m, k) or (k)"],
    b: Annotated[Tensor, "=a|fp8 (..., k, n) or (k)"],
    out_dtype: Annotated[torch.dtype | None, "bf16|fp16|fp32|fp8"] = None,
) -> Annotated[Tensor, "out_dtype|=a|bf16 (..., m, n)"]:
    """a @ b, with fp32 sums.

    args:      a          (..., M, K) or (K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides, any extents, also 0
               b          (..., K, N) or (K), of a's type (of fp8 the two may differ); the dimensions in front are broadcast
               out_dtype  of the result: any of these types, by default a's; bf16 for fp8
    returns:   (..., M, N), contiguous; a dimension that an operand lacks the result lacks, too
    computed:  on sm_90 by `mimw.kernels.gemm` where TMA can read the operands, or copies of them are worth making, few rows of
               large b by `mimw.kernels.column_gemm` or `skinny_gemm`, batches by `mimw.kernels.batched_gemm` where TMA can read
               them; on gfx942, gfx950 and gfx1250 by `mimw.kernels.mfma_gemm` matrices of 16 and 8 bits whose rows and K are
               multiples of 16 bytes; else by `mimw.kernels.plain_matmul`. fp32 obeys torch.get_float32_matmul_precision():
               "highest" is exact fp32 products (the plain kernel), the others are tf32
    gradients  of both operands; none of fp8
    errors:    RuntimeError where extents, types or devices do not fit each other, as torch has it; NotImplementedError for other
               types (fp64, integers, complex: torch.matmul)

    contract:
        operations: 2 * prod(front) * m * n * k
    """

def mla_decode(
    q: Annotated[Tensor, "float (batch, queries, heads, width)"],
    cache: Annotated[Tensor, "=q|e4m3 (pages, page_size, kv_heads, cache_width)"],
    cache_seqlens: Annotated[Tensor | int, "int (batch)"],
    *,
    page_table: Annotated[Tensor | None, "int (batch, most_pages)"] = None,
    value_dim: int = 512,
    scale: float | None = None,
    causal: bool = True,
    splits: int | None = None,
    k_scale: Annotated[Tensor | float | None, "float (1)"] = None,
) -> tuple[Tensor, Tensor]:
    """(out, lse): out = softmax(scale q k^T) v of the last queries of each sequence, where k are the rows of its cache, and v the
    first value_dim columns of these; scores and sums in fp32. Write the new rows into the cache first.

    args:      q           (batch, queries, heads, width): bf16, fp16 or fp32, any strides
               cache       (pages, page_size, 1, width), or without a page table (batch, length, 1, width); of q's type, or of e4m3
                           with k_scale; or packed as FlashMLA has it, in e4m3 without k_scale: each row value_dim numbers, a
                           float32 for each 128 of them, and the other columns in bf16, 656 bytes for 576 columns; q is bf16 then.
                           Any strides; one whose rows are not contiguous is copied at each call
               cache_seqlens   (batch) int32 or int64 on the device, or one number for all: how many keys of each sequence count,
                           those of the new queries among them. The host never waits for it. A length above what the cache holds
                           counts as that, one below 0 as 0
               page_table  (batch, most pages) int32 or int64: page j of a sequence has its keys from j * page_size on. Entries
                           behind a sequence's keys may be anything; no NaN that lies behind the last key matters
               value_dim   1 to width - 1
               scale       of the scores, by default width ** -0.5
               causal      query i sees keys up to i + length - queries; else all of its sequence
               splits      into so many parts at most the keys of a sequence are cut; by default all multiprocessors get equal
                           shares of all keys. With 1 a sequence's result is the same to the bit whatever else is in the batch
               k_scale     what keys and values of e4m3 are multiplied by: a tensor of one number, or a number
    returns:   out (batch, queries, heads, value_dim) of q's type, contiguous; lse, fp32 (batch, heads, queries), natural. A query
               that sees no key gets out = 0 and lse = -inf. Results are the same to the bit from run to run for the same lengths
    computed:  on sm_90 by `mimw.kernels.mla_decode` for bf16 and fp16, 512, 256 or 128 values and 64 other columns, pages of 16,
               32 or a multiple of 64 keys that TMA can read, of caches of e4m3 any; each key is read once for all heads and queries
               of its sequence. Else by `mimw.kernels.plain_mla_decode`. fp32 obeys torch.get_float32_matmul_precision()
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types. There is
               no derivative

    contract:
        kv_heads == 1 -- all heads share one latent row
        0 < value_dim < width -- values are some of a row's columns, not all
        k_scale is None or fp8(cache) -- a scale goes with a cache of e4m3
        fp8(cache) and k_scale is None or cache_width == width -- rows of the cache are as wide as q's
        not fp8(cache) or k_scale is not None or value_dim % 128 == 0 and cache_width == value_dim + value_dim // 32 + 2 * (width -
            value_dim) -- e4m3 without a scale is packed: values, a float32 for each 128 of them, and the others in bf16
        page_table is not None or pages == batch -- without a page table there must be as many caches as sequences
        splits >= 1 -- the number of splits must be 1 or more, or None
        -> out: =q (batch, queries, heads, value_dim)
        -> lse: fp32 (batch, heads, queries)
    """

def moe(
    x: Annotated[Tensor, "float (tokens, hidden)"],
    w_gate_up: Annotated[Tensor, "=x (experts, 2 * inner, hidden) or fp8 (experts, 2 * inner, hidden)"],
    w_down: Annotated[Tensor, "=x (experts, hidden, inner) or fp8 (experts, hidden, inner)"],
    expert_ids: Annotated[Tensor, "int (tokens, k)"],
    expert_weights: Annotated[Tensor, "float (tokens, k)"],
    *,
    w_gate_up_scale: Annotated[Tensor | None, "fp32 (experts, 2 * inner // 128, cdiv(hidden, 128))"] = None,
    w_down_scale: Annotated[Tensor | None, "fp32 (experts, cdiv(hidden, 128), inner // 128)"] = None,
    activation: Literal["swiglu"] = "swiglu",
) -> Annotated[Tensor, "=x (tokens, hidden)"]:
    """out[t] = sum over j of expert_weights[t, j] w_down[e] (silu(gate) up), where e = expert_ids[t, j] and gate and up are the
    halves of w_gate_up[e] x[t].

    args:      x               (tokens, hidden): bf16, fp16 or fp32, any strides
               w_gate_up       (experts, 2 inner, hidden) of x's type, any strides: the rows of the gate, then those of up
               w_down          (experts, hidden, inner) of x's type, any strides
                               Or both fp8, e4m3 or e5m2, inner a multiple of 128, with scales:
               w_gate_up_scale, w_down_scale   fp32, what each 128 x 128 of them counts: (experts, 2 inner / 128, cdiv(hidden, 128))
                               and (experts, cdiv(hidden, 128), inner / 128). Tokens and inner rows are then quantised on the way
                               to the matrices' type, with a scale for each 128 numbers
               expert_ids      (tokens, k), int32 or int64, as torch.topk gives them: from 0 to experts - 1, which is not checked,
                               since that would wait for the device. An expert may have no token, or all; a token one expert twice
               expert_weights  (tokens, k): bf16, fp16 or fp32
               activation      "swiglu", the only one
    returns:   (tokens, hidden) of x's type, contiguous; the same bits every time
    computed:  on sm_90 by `mimw.kernels.moe` in four to six launches, where TMA can read the matrices (rows multiples of 16
               bytes) and experts are at most 1024. Nothing waits for the device, so a call can be captured. Gate and up are never
               written; between the products rows are of x's type, sums are fp32, and a token's experts are added up in the order
               of j. Else, and for fp32 while torch.get_float32_matmul_precision() is "highest", by `mimw.ops.grouped_matmul`,
               which then may wait for the sizes of groups
    gradients  none of fp8; the first ones of x, w_gate_up, w_down and expert_weights, by `grouped_matmul` and `swiglu`: the
               arguments alone are kept, so the first product is computed again. Those of the matrices wait for the sizes of groups
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and activations

    contract:
        experts > 0 or tokens * k == 0 -- there are no experts to choose from
        w_gate_up.dtype == w_down.dtype -- with scales both are of one fp8 type
        inner % 128 == 0 -- with scales inner must be a multiple of 128
        operations: 6 * tokens * k * hidden * inner
    """

def moe_align(
    topk_ids: Annotated[Tensor, "int (*ids)"],
    num_experts: int,
    block_size: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """(sorted_token_ids, expert_ids, num_tokens_post_pad), all int32.

    args:      topk_ids     int32 or int64, any shape and strides, seen as one list of n tokens; values from 0 to num_experts - 1
               num_experts  1 to 1024
               block_size   tokens a block, 1 or more
    returns:   sorted_token_ids (n + num_experts * (block_size - 1)): expert after expert the numbers of its tokens, in any order,
               filled up to whole blocks, and to the end, with n; expert_ids: the expert of each block, 0 behind the last;
               num_tokens_post_pad (1): how many elements of the first are in use
    computed:  on sm_90 by `mimw.kernels.moe_align`, one launch; on other GPUs by torch's argsort, cumsum and searchsorted. Nothing
               waits for the GPU
    errors:    NotImplementedError for other types; RuntimeError for numbers that do not fit

    contract:
        1 <= num_experts <= 1024 -- there are 1 to 1024 experts
        block_size >= 1 -- blocks have 1 token or more
        -> sorted_token_ids: i32 (prod(ids) + num_experts * (block_size - 1))
        -> expert_ids: i32 (cdiv(prod(ids) + num_experts * (block_size - 1), block_size))
        -> num_tokens_post_pad: i32 (1)
    """

@overload
def rms_norm(
    x: Annotated[Tensor, "float (*rows, *n[dims])"],
    normalized_shape: Sequence[int] | int,
    weight: Annotated[Tensor | None, "float (*n)"] = None,
    eps: float | None = None,
    residual: None = None,
) -> Tensor: ...

@overload
def rms_norm(
    x: Annotated[Tensor, "float (*rows, *n[dims])"],
    normalized_shape: Sequence[int] | int,
    weight: Annotated[Tensor | None, "float (*n)"] = None,
    eps: float | None = None,
    *,
    residual: Tensor,
) -> tuple[Tensor, Tensor]: ...

@overload
def rms_norm(
    x: Annotated[Tensor, "float (*rows, *n[dims])"],
    normalized_shape: Sequence[int] | int,
    weight: Annotated[Tensor | None, "float (*n)"] = None,
    eps: float | None = None,
    residual: Annotated[Tensor | None, "float (*rows, *n)"] = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """x / sqrt(mean of squares + eps) weight over the last dimensions, as torch.nn.functional.rms_norm.

    As `layer_norm`; eps is by default that of torch for all these types: 2^-23, the difference of 1 and the next number of fp32.

    contract:
        -> y: =x (*rows, *n)
        -> rstd: fp32 (*rows)
        -> total: =x+residual (*rows, *n)
    """

@overload
def rope(
    x: Tensor,
    cos: Annotated[Tensor, "float ((batch)|1, table, half) or (table, half)"],
    sin: Annotated[Tensor, "float ((batch)|1, table, half) or (table, half)"],
    positions: Annotated[Tensor | None, "int ((batch)|1, length) or (length)"] = None,
    *,
    interleaved: bool = False,
    inplace: bool = False,
) -> Tensor: ...

@overload
def rope(
    x: tuple[Tensor, Tensor],
    cos: Annotated[Tensor, "float ((batch)|1, table, half) or (table, half)"],
    sin: Annotated[Tensor, "float ((batch)|1, table, half) or (table, half)"],
    positions: Annotated[Tensor | None, "int ((batch)|1, length) or (length)"] = None,
    *,
    interleaved: bool = False,
    inplace: bool = False,
) -> tuple[Tensor, Tensor]: ...

@overload
def rope(
    x: Annotated[Tensor | tuple[Tensor, Tensor], "float (batch, heads, length, dim) or (heads, length, dim) or (length, dim)"],
    cos: Annotated[Tensor, "float ((batch)|1, table, half) or (table, half)"],
    sin: Annotated[Tensor, "float ((batch)|1, table, half) or (table, half)"],
    positions: Annotated[Tensor | None, "int ((batch)|1, length) or (length)"] = None,
    *,
    interleaved: bool = False,
    inplace: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The first columns of each row turned, pair by pair: (a cos - b sin, a sin + b cos); the columns behind them as they are.

    args:      x            (..., heads, length, dim), at most four dimensions, or a pair of such, say queries and keys, which may
                            differ in their heads: bf16, fp16 or fp32, any strides. Of (batch, length, heads, dim) give
                            x.transpose(1, 2): nothing is copied, and the result lies as x does
               cos, sin     (length or more, R / 2) or (batch, length or more, R / 2), R <= dim, any of these types. Tables that
                            repeat themselves, as Hugging Face's, are given as cos[..., :R // 2]
               positions    (length) or (batch, length), int32 or int64: the row of the tables for each position; by default 0, 1,
                            ... A position outside of the tables gives NaN
               interleaved  columns 2i and 2i + 1 are a pair; else columns i and i + R / 2
               inplace      write into x itself, which is also the result
    returns:   of x's shape, type and order in memory; computed in fp32, rounded once
    computed:  by `mimw.kernels.rope`, plain Triton, one launch for both
    gradients  of x, of any order: the rotation by the negative angles. Tables have none
    errors:    RuntimeError where shapes, types or devices do not fit; in place for a leaf that requires grad, a view of one, and
               elements that share memory, as those of an expanded tensor or of (x, x); NotImplementedError for other types and
               for tables that require grad

    contract:
        cos.shape == sin.shape -- tables must be alike
        2 * half <= dim -- tables turn twice as many columns as they have, and x must have these. Tables that repeat themselves are
            given as cos[..., :R // 2]
        positions is not None or table >= length -- tables must have a row for each position
    """

def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, by our kernels where they take the call, else by torch.

    args:      query       (..., heads, seq_q, dim), as torch has it
               key, value  (..., kv_heads, seq_k, dim) and (..., kv_heads, seq_k, value_dim)
               attn_mask   bool, True for what is seen, or numbers that are added to the scores; broadcast to (..., heads, seq_q,
                           seq_k)
               dropout_p   probability with which a weight is dropped
               is_causal   query i sees keys up to i, aligned to the upper left, as torch has it where the lengths differ
               scale       of the scores, by default 1 / sqrt(dim)
               enable_gqa  head h of the queries reads head h * kv_heads // heads of the keys; else heads are equal, or broadcast
    returns:   (..., heads, seq_q, value_dim); 0 for a query that sees no key
    computed:  by `mimw.ops.attention`: bf16, fp16 and fp32 without a mask, causal or not; by `mimw.ops.attention_varlen`: with a
               mask that is the same for all heads and queries, as padded batches have it, (batch, 1, 1, seq_k): the keys that are
               seen are packed, and those of the padding cost a copy alone; the host waits for nothing. By torch: other masks,
               dropout, fp64, nested tensors and other classes of tensors. `mimw.ops.explain` says which, and why
    gradients  of query, key and value, as those of the operator that computes; torch's where torch does
    errors:    torch's own
    """

def scaled_mm(
    a: Annotated[Tensor, "fp8 (m, k)"],
    b: Annotated[Tensor, "fp8 (k, n)"],
    scale_a: Annotated[Tensor, "fp32|e8m0 (m, cdiv(k, 128)) or (m, 1) or (1, 1) or (1) or () or (m, cdiv(k, 32))"],
    scale_b: Annotated[Tensor, "=scale_a (cdiv(k, 128), cdiv(n, 128)) or (1, n) or (1, 1) or (1) or () or (cdiv(k, 32), n)"],
    bias: Annotated[Tensor | None, "float (n)"] = None,
    out_dtype: Annotated[torch.dtype | None, "float"] = None,
    use_fast_accum: bool = False,
) -> Annotated[Tensor, "out_dtype|bf16 (m, n)"]:
    """(scale_a a) @ (scale_b b) + bias of fp8 matrices.

    args:      a         (M, K), fp8 e4m3 or e5m2, any strides
               b         (K, N), fp8, any strides; contiguous along K, `weight.T`, is read as it lies
               scale_a, scale_b     fp32: one element each; (M, 1) and (1, N); or (M, cdiv(K, 128)) and (cdiv(K, 128),
                         cdiv(N, 128)). Where two of these are one shape, the first of them counts. Or e8m0, both
                         (torch.float8_e8m0fnu): (M, cdiv(K, 32)) and (cdiv(K, 32), N), which is mxfp8
               bias      (N), bf16, fp16 or fp32; not with scales of blocks, nor with e8m0
               out_dtype bf16 (by default), fp16 or fp32
               use_fast_accum       leave sums in the tensor cores, which keep about 14 bits of them; without, and with scales of
                         blocks, they are added up in fp32 every 128 of K
    returns:   (M, N), contiguous
    computed:  on sm_90 in one launch of `mimw.kernels.gemm`, `column_gemm` (few rows, fast), or with scales of blocks
               `skinny_scaled_gemm` (few rows) or `block_scaled_gemm`, where TMA can read the operands; on gfx950 and gfx1250,
               whose matrix cores add up in fp32, in one launch of `mfma_gemm` where rows and K are multiples of 16 bytes,
               except with scales of blocks; mxfp8 on gfx950 in one launch of `mfma_scaled_gemm`, where K is a multiple of 128 and
               rows of a and columns of b are contiguous, a multiple of 16 bytes from one to the next; else by `mimw.ops.matmul` of
               the scaled operands in fp32
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types. No derivative

    contract:
        operations: 2 * m * n * k
    """

@overload
def simplicial_attention(
    q: Annotated[Tensor, "float (batch, heads, seq_q, dim)"],
    k: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    v: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    k2: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    v2: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    windows: tuple[int, int] = (512, 32),
    scale: float | None = None,
    return_lse: Literal[False] = False,
) -> Tensor: ...

@overload
def simplicial_attention(
    q: Annotated[Tensor, "float (batch, heads, seq_q, dim)"],
    k: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    v: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    k2: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    v2: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    windows: tuple[int, int] = (512, 32),
    scale: float | None = None,
    *,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...

@overload
def simplicial_attention(
    q: Annotated[Tensor, "float (batch, heads, seq_q, dim)"],
    k: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    v: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    k2: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    v2: Annotated[Tensor, "=q (batch, kv_heads, seq_k, dim)"],
    windows: tuple[int, int] = (512, 32),
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """o[i] = sum over j, k of p[i, j, k] v[j] v2[k], with p the softmax over all pairs of scale sum_d q[i, d] k[j, d] k2[k, d].

    args:      q           (batch, heads, seq_q, dim): bf16, fp16 or fp32, any strides, any extents, also 0
               k, v, k2, v2   (batch, kv_heads, seq_k, dim) of q's type, seq_k >= seq_q; kv_heads divides heads, and head h reads
                           kv head h * kv_heads // heads
               windows     (keys, second keys), 1 or more: query i, at position p = i + seq_k - seq_q, sees p - keys < j <= p and
                           p - second keys < k <= p
               scale       of the logits, by default 1 / sqrt(dim)
               return_lse  also the natural logarithms of the softmax's denominators
    returns:   o like q, contiguous; with lse, fp32 (batch, heads, seq_q)
    computed:  with fp32 logits and sums; the products q k2 are rounded to q's type. On sm_90 by `mimw.kernels.simplicial_attention`
               for bf16 and fp16, where the heads are 64 or 128 wide, a multiple of 64 of them shares keys, and TMA can read the
               tensors; else by `mimw.kernels.plain_simplicial_attention`. fp32 obeys torch.get_float32_matmul_precision()
    gradients  of all five, from those of o and lse: on sm_90 that of q by `mimw.kernels.simplicial_attention_backward`, else by
               `mimw.kernels.plain_simplicial_attention`; no second derivative
    errors:    RuntimeError where shapes, windows, types or devices do not fit; NotImplementedError for other types

    contract:
        kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q
        dim > 0 -- heads of width 0 have no logits
        seq_k >= seq_q -- the last query is at the last key, and the first would see none
        window >= 1 and window2 >= 1 -- windows are 1 or more, as a query sees itself
        -> o: =q (batch, heads, seq_q, dim)
        -> lse: fp32 (batch, heads, seq_q)
        operations: 5 * batch * heads * seq_q * min(window, seq_k) * min(window2, seq_k) * dim
    """

def softmax(
    x: Annotated[Tensor, "float (*any)"],
    dim: int,
    dtype: Annotated[torch.dtype | None, "float"] = None,
) -> Annotated[Tensor, "dtype|=x (*any)"]:
    """exp(x) over its sum along `dim`, as torch.softmax, with fp32 maxima and sums.

    args:      x       bf16, fp16 or fp32, any strides, any extents, also 0, or a number
               dim     a dimension of x, also counted from the end
               dtype   of the result: any of these types, by default x's; x itself is not rounded to it before
    returns:   of x's shape. A row of -inf alone gives NaN
    computed:  by `mimw.kernels.softmax`: on sm_90 many long rows by bulk copies into a ring, few long ones by clusters; along
               another dimension than the last one of a copy
    gradients  of x; no second derivative
    errors:    IndexError for a dimension that x does not have; NotImplementedError for other types
    """

def sparse_mla(
    q: Annotated[Tensor, "float (B, S, H, W)"],
    kv: Annotated[Tensor, "=q (B, SKV, HKV, W)"],
    indices: Annotated[Tensor, "int (B, S, HKV, TOPK)"],
    lengths: Annotated[Tensor, "int (B, S, HKV)"],
    value_dim: int = 512,
    scale: float | None = None,
    causal: bool = False,
    base_2: bool = False,
) -> tuple[Tensor, Tensor]:
    """(out, lse): out[b, s, h] = sum of softmax(scale q . kv[rows]) kv[rows, :value_dim] over the listed rows.

    args:      q          (B, S, H, W): bf16, fp16 or fp32, any strides; W = value_dim + the columns that are key only
               kv         (B, SKV, HKV, W) of q's type; HKV divides H
               indices    (B, S, HKV, TOPK), int32 or int64: rows of kv; those below 0, from SKV on, or (causal) behind the query do
                          not count
               lengths    (B, S, HKV), int32 or int64: how many entries of each list count
               value_dim  1 to W
               scale      of the scores, by default W ** -0.5
               base_2     lse to base 2
    returns:   out (B, S, H, value_dim) of q's type, 0 for queries without a row; lse (B, S, H), fp32, +inf for these
    computed:  on sm_90 by `mimw.kernels.sparse_mla` for bf16 and fp16, where H / HKV is a multiple of 64, value_dim of 32 and
               W - value_dim of 16 and not 0; else by `mimw.kernels.plain_sparse_mla`. fp32 obeys
               torch.get_float32_matmul_precision()
    errors:    RuntimeError where shapes or devices do not fit, with the numbers; NotImplementedError for other types. There is no
               derivative

    contract:
        H == 0 or HKV > 0 and H % HKV == 0 -- H must be HKV equal groups of heads
        1 <= value_dim <= W -- values are 1 to all of the columns
        -> out: =q (B, S, H, value_dim)
        -> lse: fp32 (B, S, H)
        operations: 2 * B * S * H * TOPK * (W + value_dim)
    """

def swiglu(
    gate: Annotated[Tensor, "float (*any)"],
    up: Annotated[Tensor, "=gate (*any)"],
) -> Annotated[Tensor, "=gate (*any)"]:
    """gate sigmoid(gate) up, as torch.nn.functional.silu(gate) * up without rounding between.

    args:      gate, up   of one shape and type: bf16, fp16 or fp32, any strides, any extents, also 0
    returns:   of their shape and type, contiguous
    computed:  in fp32 by `mimw.kernels.swiglu`, plain Triton
    gradients  of both; no second derivative
    errors:    RuntimeError where shapes, types or devices differ; NotImplementedError for other types
    """

def topk(
    x: Annotated[Tensor, "float (*any)"],
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    stable: bool = False,
) -> TopK:
    """(values, indices) of the k largest of each row of x along `dim`, as torch.topk.

    args:      x        of any shape and strides: fp16, bf16, fp32
               k        0 to the extent of `dim`
               dim      the dimension that the rows are along
               largest  or the k smallest. NaN is larger than all numbers
               sorted   in order, the largest (or smallest) first; of equal ones the first. Else in any order
               stable   of numbers equal to the last one chosen the first in the row are chosen; torch.topk, and this without it,
                        choose any. It takes a second selection, and some passes of torch's over x
    returns:   `.values` of x's type and int64 `.indices`, x's shape with k in the place of the extent of `dim`, contiguous
    computed:  rows of up to 1024, up to 256 rows of up to 4096, and all rows on GPUs other than sm_90, by sorting in
               `mimw.kernels.plain_topk`; longer ones by `mimw.kernels.topk`, those of more than 131072 numbers
               and 32 or more rows of over 16384 by `mimw.kernels.topk_selector`, then put in order by the first of these, k up to
               4096. By torch's own: the order of more than 4096 (torch.sort); more than half of rows of over 524288 numbers where k
               is over 16384, and on GPUs other than sm_90 more than 2048 of rows of over 4096 (torch.topk)
    gradients  of the values
    errors:    RuntimeError if k is out of range; IndexError for a dimension that x lacks; NotImplementedError for other types
               (torch.topk takes integers and fp64)

    contract:
        0 <= k -- it is 0 or more
        -> values: =x (*chosen)
        -> indices: i64 (*chosen)
    """

def topk_selector(
    x: Annotated[Tensor, "fp32|bf16|fp16|fp64 (rows, length)"],
    k: int,
    starts: Annotated[Tensor | None, "int (rows)"] = None,
    ends: Annotated[Tensor | None, "int (rows)"] = None,
) -> Annotated[Tensor, "i32 (rows, k)"]:
    """The columns of the k largest of x[row, starts[row]:ends[row]], in any order; of equal ones any.

    args:      x       (rows, length): fp32, bf16, fp16 or fp64, which is rounded to fp32; any strides. NaN is the largest
               k       0 to 16384, also more than the length
               starts, ends   (rows), int32 or int64, cut to 0 and the length; by default whole rows
    returns:   int32 (rows, k): columns of x, then -1 where a window has fewer than k
    computed:  by `mimw.kernels.topk_selector`, on sm_90 few long rows by clusters
    errors:    RuntimeError where shapes or devices do not fit, or k is out of range; NotImplementedError for other types

    contract:
        (starts is None) == (ends is None) -- give both starts and ends, or neither
        0 <= k <= 16384 -- k may be 0 to 16384
        length <= 33554432 -- rows may have 33554432 numbers
    """
