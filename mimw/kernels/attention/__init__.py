"""Attention forward for Hopper: bf16 and fp16, head dims 64, 128 and 256, causal or not, grouped queries.

    attention(q, k, v)                          on torch tensors of a GPU
    arguments(q, k, v, o, lse, programs)        what a launch or `mimw.simulate` of `kernel` takes, for numpy or torch arrays
"""

from __future__ import annotations

from math import log2, e, sqrt

import mimw

from .configs import Configuration, configuration
from .kernel import attention as kernel

__all__ = ["Configuration", "arguments", "attention", "configuration", "kernel"]

L2_BYTES = 16 << 20  # of keys and values that the programs work on at a time
HEAD_DIMS = (64, 128, 256)


def arguments(q, k, v, o, lse, counter, programs: int, causal: bool = False, scale: float | None = None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute o and lse."""
    batch, heads, seq_q, dim = q.shape
    _, kv_heads, seq_k, _ = k.shape
    chosen = chosen or configuration(dim, causal)
    meta = chosen.meta(dim, heads // kv_heads, causal, seq_q, seq_k)
    band = L2_BYTES // (4 * seq_k * dim) * (heads // kv_heads) if causal else 1
    band = max(1, min(band, batch * heads))
    describe = mimw.TensorDescriptor.from_tensor
    rows, keys = [1, 1, chosen.bm // chosen.consumers, dim], [1, 1, chosen.bn, dim // chosen.cluster]
    scale = 1 / sqrt(dim) if scale is None else scale
    args = (describe(q, rows), describe(k, keys), describe(v, keys), describe(o, rows), lse, counter, scale * log2(e),
            batch, heads, seq_q, seq_k, chosen.band or band)
    tiles = -(-seq_q // (chosen.bm * chosen.cluster)) * batch * heads
    grid = (min(programs // chosen.cluster, tiles) * chosen.cluster, )
    cluster = dict(ctas_per_cga=(chosen.cluster, 1, 1)) if chosen.cluster > 1 else {}
    return grid, args, {**meta, **cluster, "num_warps": 4}


def attention(q, k, v, causal: bool = False, scale: float | None = None, chosen: Configuration | None = None):
    import torch
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    grid, args, meta = arguments(q, k, v, o, lse, counter, programs, causal, scale, chosen)
    kernel[grid](*args, **meta)
    return o, lse
