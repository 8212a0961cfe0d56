"""Attention forward: o = softmax(scale q k^T) v, and the logarithms of the softmax's denominators.

Input: q (batch, heads, seq_q, dim), k and v (batch, kv_heads, seq_k, dim). Output: (o, lse), lse of fp32. For example:

    o, lse = attention(q, k, v, causal=True)
    o, lse = attention(q, k, v, False, 0.125)

Causal: query i sees keys up to i + seq_k - seq_q, so the last query sees all.
"""

from math import e, log2, sqrt

import torch

SCHEMA = "(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> (Tensor, Tensor)"
L2_BYTES = 32 << 20     # of keys and values that programs work on at a time


def outputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
            scale: float | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse), unfilled."""
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise RuntimeError(f"attention: q is {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}; they are to be (batch, "
                           "heads, seq_q, dim) and twice (batch, kv_heads, seq_k, dim)")
    if len({q.dtype, k.dtype, v.dtype}) > 1:
        raise RuntimeError(f"attention: q is of {q.dtype}, k of {k.dtype} and v of {v.dtype}; they are to be of one type")
    if 0 in q.shape or 0 in k.shape:
        raise RuntimeError(f"attention: q is {tuple(q.shape)} and k {tuple(k.shape)}; no extent may be 0")
    if q.shape[1] % k.shape[1]:
        raise RuntimeError(f"attention: {k.shape[1]} heads of keys do not divide {q.shape[1]} heads of queries")
    if causal and k.shape[2] < q.shape[2]:
        raise RuntimeError(f"attention: of {q.shape[2]} causal queries and {k.shape[2]} keys the first queries would see no key")
    if scale is not None and scale <= 0:
        raise RuntimeError(f"attention: the scale is {scale}, and is to be more than 0")
    return (torch.empty(q.shape, dtype=q.dtype, device=q.device),
            torch.empty(q.shape[:3], dtype=torch.float32, device=q.device))


def call(forms, results: tuple[torch.Tensor, torch.Tensor], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
         scale: float | None = None) -> None:
    """Fill o and lse. Programs draw tiles of queries from a counter, a band of heads at a time."""
    o, lse = results
    (batch, heads, seq_q, dim), (kv_heads, seq_k) = q.shape, k.shape[1:3]
    group, programs = heads // kv_heads, forms.processors(q.device)
    band = max(1, min(batch * heads, L2_BYTES // (4 * seq_k * dim) * group)) if causal else 1
    select = {"dim": dim, "group": group, "causal": causal, "square": causal and seq_k == seq_q}
    scale = (1 / sqrt(dim) if scale is None else scale) * log2(e)
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    forms(lambda facts: (min(programs, -(-seq_q // facts["rows"]) * batch * heads), ), select, q_desc=q, k_desc=k, v_desc=v,
          o_desc=o, lse=lse, counter=counter, scale=scale, batches=batch, heads=heads, seq_q=seq_q, seq_k=seq_k, band=band)
