"""The launches that the library's packages are compiled from: one for each type and form, with extents that specialise little.

Input: nothing. Output: plans. For example:

    attention().forms[0].select     {"dim": 64, "group": 1, "causal": False, "square": False, "rows": 192}

An extent that is a multiple of 16 stays one in every call, and one of 1 is a constant. So extents here are odd multiples of 8, or
odd, except where loads of 16 bytes need the promise: columns of norms and of SwiGLU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from mimw.export import Plan
from mimw.kernels import attention as attentions
from mimw.kernels import gemm as products
from mimw.kernels import norm as norms
from mimw.kernels import swiglu as swiglus

_HOSTS = Path(__file__).parent / "hosts"
_LOW = torch.bfloat16, torch.float16
_FLOATS = (*_LOW, torch.float32)
_PROGRAMS = 132
# Tiles of a large product, and of one that has too few of these for all multiprocessors.
TILES = {128: products.Configuration(bm=128, bn=128, stages=6, staging=1, ping_pong=True),
         64: products.Configuration(bm=64, bn=64, stages=8, consumers=1, staging=1)}
NORM_BLOCKS = 512, 1024, 2048, 4096, 8192, 16384
SWIGLU_BLOCKS = 512, 2048


def gemm() -> Plan:
    """`gemm(a, b)`: bf16 and fp16, b by rows or by columns, two sizes of tiles."""
    return Plan("gemm", list(_gemms()), _HOSTS / "gemm.py", about="c = a b for Hopper, summed in fp32; bf16 and fp16.")


def _gemms() -> Iterator[tuple]:
    for dtype in _LOW:
        for tile, chosen in TILES.items():
            for by_columns in (False, True):
                a, c = (torch.empty(1032, 1032, dtype=dtype) for _ in range(2))
                b = a.T if by_columns else a
                yield ((products.kernel, *products.arguments(a, b, c, _PROGRAMS, chosen)),
                       {"rows": chosen.bm, "columns": chosen.bn, "tile": tile, "by_columns": by_columns})


def rms_norm() -> Plan:
    """`rms_norm(x, weight, eps)`: rows of up to 16384 elements, in multiples of 16."""
    return Plan("rms-norm", list(_norms()), _HOSTS / "rms_norm.py", about="RMSNorm of rows in one pass; bf16, fp16 and fp32.")


def _norms() -> Iterator[tuple]:
    for dtype in _FLOATS:
        for block in NORM_BLOCKS:
            x, weight = torch.empty(33, block, dtype=dtype), torch.empty(block, dtype=dtype)
            chosen = norms.direct_configuration(1 << 20, block)
            yield norms.arguments(x, weight, None, torch.empty_like(x), centred=False, chosen=chosen), {
                "block": block, "rows": chosen.rows}


def swiglu() -> Plan:
    """`swiglu(gate, up)`: rows of any length; quicker where columns and strides are multiples of 16."""
    return Plan("swiglu", list(_swiglus()), _HOSTS / "swiglu.py", about="silu(gate) up in one pass; bf16, fp16 and fp32.")


def _swiglus() -> Iterator[tuple]:
    for dtype in _FLOATS:
        for block in SWIGLU_BLOCKS:
            for n in (block, block - 1):
                gate, up, y = (torch.empty(33, n, dtype=dtype) for _ in range(3))
                yield swiglus.arguments(gate, up, y), {"block": block}


def attention(dtype: torch.dtype = torch.bfloat16, dims: tuple[int, ...] = (64, 128), groups: tuple[int, ...] = (1, 4, 8)) -> Plan:
    """`attention(q, k, v, causal, scale)`: heads of `dims`, so many heads of queries for one of keys as `groups` says."""
    return Plan("attention", list(_attentions(dtype, dims, groups)), _HOSTS / "attention.py",
                about="Attention forward for Hopper, with the logarithms of the denominators; grouped queries, causal or not.")


def _attentions(dtype: torch.dtype, dims: tuple[int, ...], groups: tuple[int, ...]) -> Iterator[tuple]:
    for dim in dims:
        for causal in (False, True):
            chosen = attentions.configuration(dim, causal)
            for group in groups:
                # Causal masks that begin at a tile's corner, which square ones do, touch one block of keys a tile, others two.
                for seq_k in (1000, 1034) if causal else (1000, ):
                    q, o = (torch.empty(3, 5 * group, 1000, dim, dtype=dtype) for _ in range(2))
                    k, v = (torch.empty(3, 5, seq_k, dim, dtype=dtype) for _ in range(2))
                    lse, counter = torch.empty(q.shape[:3]), torch.empty(1, dtype=torch.int32)
                    grid, args, meta = attentions.arguments(q, k, v, o, lse, counter, _PROGRAMS, causal, chosen=chosen)
                    yield (attentions.kernel, grid, args, meta), {
                        "dim": dim, "group": group, "causal": causal, "square": causal and seq_k == 1000, "rows": chosen.bm}
