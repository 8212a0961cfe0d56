"""fp8 products with scales of blocks for Hopper: 1 x 128 of A by 128 x 128 of B, fp32 sums; one matrix, or groups of rows.

Input: a (M, K) and b (N, K) of fp8 with their scales, or groups of either. Output: c (M, N) in bf16. For example:

    block_scaled_matmul(a, b, scale_a, scale_b)             on torch tensors of a GPU; `ends=` for groups of rows, a row of b each
    arguments(a, b, c, scale_a, scale_b, programs)          (grid, args, meta) of a launch or `mimw.simulate` of `kernel`
"""

from ..checks import PROGRAMS, lie
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from ..grouped_gemm import ragged
from .configs import TALL, WIDE, Configuration, configuration
from .kernel import block_scaled_gemm as kernel
from .nouns import Sizes, StepsOfScales

BLOCK, MOST = 128, 256      # of K and columns, that share a scale; elements of a TMA copy in one dimension


def _contract(a: str, b: str, *more: str) -> Contract:
    """The contract of a layout, with the extents that stand before those of a and c, and of b."""
    return Contract(f"a: fp8 ({a}M, K) tma", f"b: fp8 ({b}N, K) tma", f"c: float ({a}M, N) tma",
                    f"scale_a: fp32 ({a}M, cdiv(K, 128))", f"scale_b: fp32 ({b}cdiv(N, 128), cdiv(K, 128))", *more, PROGRAMS)


CONTRACTS = {"plain": _contract("", ""), "contiguous": _contract("", "G, ", "ends: i32 (G) contiguous"),
             "masked": _contract("G, ", "G, ", "ends: i32 (G) contiguous")}

__all__ = ["CONTRACTS", "TALL", "WIDE", "Configuration", "arguments", "block_scaled_matmul", "configuration", "kernel"]


def arguments(a, b, c, scale_a, scale_b, programs: int, ends=None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) of c = a b^T, where element k of row m of a counts scale_a[m, k // 128] times, and that of row n of b
    scale_b[n // 128, k // 128] times.

    plain:      a (M, K), b (N, K), c (M, N), scale_a (M, cdiv(K, 128)), scale_b (cdiv(N, 128), cdiv(K, 128))
    contiguous: the same with b (G, N, K), scale_b (G, ..), and `ends` (G, ) int32: rows ends[g - 1] to ends[g] - 1 are group g's
    masked:     a (G, M, K), c (G, M, N), scale_a (G, M, ..), too: the first ends[g] rows of matrix g are computed

    args:      a, b       fp8 e4m3 or e5m2, rows contiguous; c bf16, fp16 or fp32; rows that are in no group stay as they are
               scale_a    fp32, contiguous along M, each 128 of K a multiple of 16 bytes further on
               scale_b    fp32, any strides
               programs   how many persistent programs: one per SM
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    layout = "plain" if ends is None else "contiguous" if len(a.shape) == 2 else "masked"
    of = CONTRACTS[layout].check(a=a, b=b, c=c, scale_a=scale_a, scale_b=scale_b, ends=ends, programs=programs)
    if layout != "masked":
        a, c, scale_a = a[None], c[None], scale_a[None]
    if layout == "plain":
        b, scale_b = b[None], scale_b[None]
    m, n, k, matrices, groups = of.M, of.N, of.K, a.shape[0], b.shape[0]
    lying = scale_a.swapaxes(1, 2)
    lie("tma", **{"scale_a, as it lies in memory,": lying})
    if matrices > 1 and strides(c)[0] != m * strides(c)[1]:
        raise ValueError(f"the matrices of c must lie one behind the other; they are {strides(c)[0]} elements apart, and each has "
                         f"{m} rows of {strides(c)[1]}")
    chosen = chosen or configuration(m, n, layout, programs)
    tiles = (groups + -(-matrices * m // chosen.bm)) * -(-n // chosen.bn)
    rows = c.reshape(matrices * m, n) if matrices > 1 else c[0]
    scales = min(MOST, chosen.bm * (1 + (layout == "contiguous")))
    args = (described(a, [1, chosen.bm, BLOCK]), described(b, [1, chosen.bn, BLOCK]), ragged(rows, [64, 128 // c.dtype.itemsize]),
            described(lying, [1, 1, scales]), scale_b, StepsOfScales(*strides(scale_b)), ends, groups, Sizes(m, n, k))
    return (min(programs, tiles), ), args, {"FORM": chosen.form(c.dtype.itemsize, layout), "num_warps": 4}


def block_scaled_matmul(a, b, scale_a, scale_b, ends=None, out=None, out_dtype=None, chosen: Configuration | None = None):
    """The product on the GPU that holds its tensors; arguments and errors as `arguments`, bf16 unless `out_dtype` says. Scales of a
    that lie otherwise are copied. Rows in no group are not written: without `out` they are anything."""
    import torch
    for name, one in dict(a=a, b=b, scale_a=scale_a, scale_b=scale_b).items():
        if not one.is_cuda:
            raise ValueError(f"block_scaled_matmul: {name} is on {one.device}, and it runs on the GPU that holds its tensors: pass "
                             f"{name}.cuda()")
    out = torch.empty(*a.shape[:-1], b.shape[-2], dtype=out_dtype or torch.bfloat16, device=a.device) if out is None else out
    if scale_a.stride(-2) != 1 or scale_a.stride(-1) % 4:
        rows = scale_a.shape[-2]
        lying = torch.empty(*scale_a.shape[:-2], scale_a.shape[-1], -(-rows // 4) * 4, device=a.device)
        scale_a = lying[..., :rows].mT.copy_(scale_a)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid, args, meta = arguments(a, b, out, scale_a, scale_b, programs, ends, chosen)
    kernel[grid](*args, **meta)
    return out
