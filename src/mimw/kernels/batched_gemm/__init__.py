"""Products of batches of matrices for Hopper: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 accumulation.

Input: a (B, M, K) and b (B, K, N), either of them one matrix for all. Output: c = a b, (B, M, N). For example:

    batched_matmul(a, b)                    on torch tensors of a GPU
    arguments(a, b, c, programs)            (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, for numpy or torch
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu, one_of, persistent, rows_for_tma, strides
from ..descriptors import described
from ..gemm.configs import Configuration, configuration
from .kernel import batched_gemm as kernel

MANY = 2048     # rows and columns that keep all programs busy; a batch of smaller matrices does, too
SHORT = Configuration(bm=128, bn=128, stages=5, staging=2, ping_pong=True)      # few chunks a tile: stores bound it
TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")

__all__ = ["SHORT", "Configuration", "arguments", "batched_matmul", "chosen_for", "kernel"]


def chosen_for(m: int, n: int, k: int, in_bytes: int) -> Configuration:
    """The configuration that `arguments` takes by itself: SHORT for K up to 1 KiB, else the GEMM's for one of the matrices, as if
    it had MANY rows and columns."""
    return SHORT if k * in_bytes <= 1024 else configuration(max(m, MANY), max(n, MANY), k, in_bytes)


def arguments(a, b, c, programs: int, chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c[i] = a[i] b[i] for each i.

    args:      a         (B, M, K) or (1, M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (B, K, N) or (1, K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns
               c         (B, M, N), rows contiguous, of any of these types
                         From matrix to matrix any stride that is a multiple of 16 bytes; 0 for a or b is one matrix for all
               programs  how many persistent programs: one per SM, never more than output tiles
               chosen    by default what `chosen_for` gives
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of_rank(3, a=a, b=b, c=c)
    programs = persistent(programs)
    one_of(TYPES, a=a, b=b, c=c)
    (batch, m, n), (count_a, m_a, k), (count_b, k_b, n_b) = c.shape, a.shape, b.shape
    in_bytes, out_bytes = a.dtype.itemsize, c.dtype.itemsize
    if (m_a, n_b, k_b) != (m, n, k) or not {count_a, count_b} <= {1, batch}:
        shapes = (" x ".join(map(str, one.shape)) for one in (a, b, c))
        raise ValueError("a is {}, b is {} and c is {}; they must be B x M x K, B x K x N and B x M x N, and only a and b may have "
                         "one matrix for all".format(*shapes))
    if a.dtype != b.dtype and (in_bytes, b.dtype.itemsize) != (1, 1):
        raise ValueError(f"a is {a.dtype} and b is {b.dtype}: both must be one type, or both fp8")
    b_is_nk = strides(b)[1] == 1 and strides(b)[2] != 1 or n == 1
    if in_bytes != 2 and not b_is_nk:
        raise ValueError(f"b of {b.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of a (B, N, K) array")
    b = b.swapaxes(1, 2) if b_is_nk else b
    (a, one_a), (b, one_b), (c, _) = map(_one_for_all, (a, b, c))
    rows_for_tma(a=a, **{"b, as it lies in memory,": b}, c=c)
    chosen = chosen or chosen_for(m, n, k, in_bytes)
    meta = chosen.meta(in_bytes, out_bytes, b_is_nk)
    b_block = [meta["BN"], meta["BK"]] if b_is_nk else [meta["BK"], meta["BN"]]
    blocks = [meta["BM"], meta["BK"]], b_block, [chosen.rows(), meta["BN"] // meta["PIECES"]]
    operands = (described(matrices, [1, *block]) for matrices, block in zip((a, b, c), blocks))
    tiles = batch * -(-m // chosen.bm) * -(-n // chosen.bn)
    return (min(programs, tiles), ), (*operands, batch, m, n, k), {**meta, "ONE_A": one_a, "ONE_B": one_b, "num_warps": 4}


def _one_for_all(matrices):
    """The matrices, and whether it is one; then the stride to the next one is of no account, and may be what TMA refuses."""
    one = matrices.shape[0] == 1 or strides(matrices)[0] == 0
    return (matrices[0][None] if one else matrices), one


def batched_matmul(a, b, out=None, out_dtype=None, chosen: Configuration | None = None):
    """a[i] @ b[i] on the GPU that holds them; arguments and errors as `arguments`. fp8 inputs give bf16 unless `out_dtype` says."""
    import torch
    on_one_gpu("batched_matmul", a=a, b=b, **({} if out is None else {"out": out}))
    of_rank(3, a=a, b=b)
    if out is None:
        out_dtype = out_dtype or (torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype)
        out = torch.empty(max(a.shape[0], b.shape[0]), a.shape[1], b.shape[2], dtype=out_dtype, device=a.device)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid, args, meta = arguments(a, b, out, programs, chosen)
    kernel[grid](*args, **meta)
    return out
