"""`mimw.ops.sparse_mla`: attention over listed rows of a latent KV cache (DeepSeek's sparse MLA, prefill).

Input: queries, the cache, and for each query a list of rows of the cache. Output: the values' weighted sums, and the
logarithms of the sums of exponentials:

    out, lse = sparse_mla(q, kv, indices, lengths)          value_dim is 512 by default
    torch.ops.mimw.sparse_mla(q, kv, indices, lengths)      the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import plain_sparse_mla
from mimw.kernels import sparse_mla as library

from .contract import Contract, Extents
from .launching import Launch, is_exact, is_hopper, programs
from .notes import another_chip, in_fp32, takes
from .operator import LOWER, Operator
from .planned import Planned

CONTRACT = Contract("sparse_mla", "q: float (B, S, H, W)", "kv: =q (B, SKV, HKV, W)", "indices: int (B, S, HKV, TOPK)",
                    "lengths: int (B, S, HKV)", "H == 0 or HKV > 0 and H % HKV == 0 -- H must be HKV equal groups of heads",
                    "1 <= value_dim <= W -- values are 1 to all of the columns", "-> out: =q (B, S, H, value_dim)",
                    "-> lse: fp32 (B, S, H)", flops="2 * B * S * H * TOPK * (W + value_dim)")


def sparse_mla(q: Tensor, kv: Tensor, indices: Tensor, lengths: Tensor, value_dim: int = 512, scale: float | None = None,
               causal: bool = False, base_2: bool = False) -> tuple[Tensor, Tensor]:
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
    """
    return SPARSE_MLA(q, kv, indices, lengths, value_dim, scale, causal, base_2)


def _plan(of: Extents, q: Tensor, kv: Tensor, indices: Tensor, lengths: Tensor, value_dim: int, scale: float | None, causal: bool,
          base_2: bool, exact: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    given, (out, lse) = (q, kv, indices, lengths), of.empty(q)
    ready = _ready(given)
    if lse.numel() == 0 or indices.numel() == 0 or kv.numel() == 0:
        return lambda q, *_: (of.out.empty(q).zero_(), of.lse.empty(q).fill_(float("inf")))
    share, tail = q.shape[2] / max(1, kv.shape[2]), q.shape[3] - value_dim
    hopper = takes("sparse_mla", another_chip(q), in_fp32(q),
                   share % library.HEADS != 0 and f"groups are no multiple of {library.HEADS} heads",
                   (value_dim % 32 or tail <= 0 or tail % 16) and "values are no multiple of 32 columns, or the others none of 16")
    if hopper:
        kernel, grid, args, meta = library.arguments(*ready, out, lse, scale, causal, base_2, programs=programs(q))
    else:
        kernel = plain_sparse_mla.kernel
        grid, args, meta = plain_sparse_mla.arguments(*ready, out, lse, scale, causal, base_2, exact, is_hopper(q))
    launch = Launch(q, kernel, grid, args, meta)
    as_is = all(one is other for one, other in zip(ready, given))

    def plan(*given: Tensor) -> tuple[Tensor, Tensor]:
        q, kv, indices, lengths = given if as_is else _ready(given)
        out, lse = of.empty(q)
        launch(*((q, q, out, kv, indices, lengths, lse) if hopper else (q, kv, indices, lengths, out, lse)))
        return out, lse

    return plan


def _ready(given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Contiguous and aligned, int32 where they are integers."""
    ready = []
    for one in given:
        one = (one if one.dtype.is_floating_point else one.to(torch.int32)).contiguous()
        ready.append(one if one.data_ptr() % 16 == 0 else one.clone())
    return tuple(ready)


SPARSE_MLA = Operator(
    "sparse_mla(Tensor q, Tensor kv, Tensor indices, Tensor lengths, int value_dim=512, float? scale=None, bool causal=False, "
    "bool base_2=False) -> (Tensor, Tensor)", Planned(_plan, is_exact), CONTRACT, autocast=LOWER)
