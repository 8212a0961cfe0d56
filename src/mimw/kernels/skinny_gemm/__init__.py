"""Products of few rows for Hopper, as in decoding: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 sums in a settled order.

Input: x (M, K) of up to some hundred rows, weights w (K, N). Output: c = x w, (M, N). For example:

    skinny_matmul(x, w)                                     on torch tensors of a GPU
    arguments(x, w, c, room, flags, programs)               (grid, args, meta) of a launch or `mimw.simulate` of `kernel`
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu, one_of, persistent, rows_for_tma, strides
from ..descriptors import described
from ..workspace import workspace
from .configs import Configuration, configuration, fits, tiles
from .kernel import skinny_gemm as kernel

TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")

__all__ = ["Configuration", "arguments", "configuration", "kernel", "room_for", "skinny_matmul"]


def room_for(m: int, n: int, programs: int, chosen: Configuration | None = None) -> tuple[int, int]:
    """(fp32 numbers of room, flags) that a launch of so many programs needs for M rows and N weights."""
    chosen = chosen or configuration(m, n, programs)
    return programs * chosen.consumers * 64 * chosen.tm, programs * chosen.consumers


def arguments(x, w, c, room, flags, programs: int, chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = x w.

    args:      x         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               w         (K, N), columns (`linear.weight.T`) or rows contiguous; 8-bit and fp32 only with contiguous columns
               c         (M, N), rows contiguous, of any of these types
               room      fp32, as many as `room_for` says; what is in it does not matter
               flags     int32, as many as `room_for` says, all 0; they are 0 again when the launch is over. Launches that may
                         run at the same time need rooms and flags of their own
               programs  how many programs share the weights: one per SM, never more than chunks, and as many as tiles where these
                         are about as many
               chosen    by default the one for M rows and N weights
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of_rank(2, x=x, w=w, c=c)
    of_rank(1, room=room, flags=flags)
    programs = persistent(programs)
    one_of(TYPES, x=x, w=w, c=c)
    one_of(("float32", ), room=room)
    one_of(("int32", ), flags=flags)
    (m, k), (k_w, n) = x.shape, w.shape
    if k != k_w or tuple(c.shape) != (m, n):
        raise ValueError(f"x is {m} x {k} and w is {k_w} x {n}, so c should be {m} x {n} with equal inner extents; "
                         f"c is {' x '.join(map(str, c.shape))}")
    if x.dtype != w.dtype and (x.dtype.itemsize, w.dtype.itemsize) != (1, 1):
        raise ValueError(f"x is {x.dtype} and w is {w.dtype}: both must be one type, or both fp8")
    w_is_nk = strides(w)[0] == 1 and strides(w)[1] != 1 or n == 1
    if x.dtype.itemsize != 2 and not w_is_nk:
        raise ValueError(f"w of {w.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of an (N, K) row-major matrix")
    w = w.T if w_is_nk else w
    rows_for_tma(x=x, **{"w, as it lies in memory,": w})
    if strides(c)[1] != 1 and n != 1:
        raise ValueError(f"the rows of c must be contiguous; its strides are {' and '.join(map(str, strides(c)))} elements")
    chosen = chosen or configuration(m, n, programs)
    meta = chosen.meta(x.dtype.itemsize, w_is_nk)
    chunks = -(-n // meta["WN"]) * -(-m // chosen.tm) * -(-k // meta["BK"])
    count = tiles(m, n, chosen.tm, chosen.consumers)
    programs = count if fits(count, programs) else min(programs, chunks)
    for name, array, least in zip(("room", "flags"), (room, flags), room_for(m, n, programs, chosen)):
        if array.shape[0] < least:
            raise ValueError(f"{name} has {array.shape[0]} elements; {programs} programs need {least}")
    w_block = [meta["WN"], meta["BK"]] if w_is_nk else [meta["BK"], meta["WN"]]
    args = described(x, [chosen.tm, meta["BK"]]), described(w, w_block), c, room, flags, chunks, m, n, k, strides(c)[0]
    return (programs, ), args, {**meta, "num_warps": 4}


def skinny_matmul(x, w, out=None, out_dtype=None, chosen: Configuration | None = None):
    """x @ w on the GPU that holds them; arguments and errors as `arguments`. fp8 inputs give bf16 unless `out_dtype` says. Results
    are the same, to the bit, each time on GPUs of as many SMs."""
    import torch
    on_one_gpu("skinny_matmul", x=x, w=w, **({} if out is None else {"out": out}))
    of_rank(2, x=x, w=w)
    if out is None:
        out_dtype = out_dtype or (torch.bfloat16 if x.dtype.itemsize == 1 else x.dtype)
        out = torch.empty(x.shape[0], w.shape[1], dtype=out_dtype, device=x.device)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    room, flags = workspace(x, room_for(x.shape[0], w.shape[1], programs, chosen))
    grid, args, meta = arguments(x, w, out, room, flags, programs, chosen)
    kernel[grid](*args, **meta)
    return out
