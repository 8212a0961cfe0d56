"""`mimw.ops.scaled_mm`: torch._scaled_mm on the library's kernels: fp8 with scales of all, of rows and columns, or of blocks.

Input: two fp8 matrices with their scales. Output: their product. For example:

    scaled_mm(a, b, scale_a, scale_b)               one scale each, or (M, 1) and (1, N)
    scaled_mm(a, b, scale_a, scale_b)               (M, K / 128) and (K / 128, N / 128): 1 x 128 of a, 128 x 128 of b
    torch.ops.mimw.scaled_mm(a, b, scale_a, scale_b)        the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import block_scaled_gemm, gemm

from .launching import Launch, is_hopper, programs, scratch
from .matmul import FP8, MATMUL
from .operator import Operator
from .plans import Plans, look
from .products import matrix_for_tma

RESULTS = (torch.bfloat16, torch.float16, torch.float32)


def scaled_mm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
              out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> Tensor:
    """(scale_a a) @ (scale_b b) + bias of fp8 matrices.

    args:      a         (M, K), fp8 e4m3 or e5m2, any strides
               b         (K, N), fp8, any strides; contiguous along K, `weight.T`, is read as it lies
               scale_a, scale_b     fp32: one element each; (M, 1) and (1, N); or (M, cdiv(K, 128)) and (cdiv(K, 128),
                         cdiv(N, 128)). Where two of these are one shape, the first of them counts
               bias      (N), bf16, fp16 or fp32; not with scales of blocks
               out_dtype bf16 (by default), fp16 or fp32
               use_fast_accum       leave sums in the tensor cores, which keep about 14 bits of them; without, and with scales of
                         blocks, they are added up in fp32 every 128 of K
    returns:   (M, N), contiguous
    computed:  on sm_90 in one launch of `mimw.kernels.gemm` or `block_scaled_gemm` where TMA can read the operands; else by
               `mimw.ops.matmul` of the scaled operands in fp32
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types. No derivative
    """
    return SCALED_MM(a, b, scale_a, scale_b, bias, out_dtype, use_fast_accum)


def _checked(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None,
             out_dtype: torch.dtype | None) -> tuple[torch.dtype, str]:
    """(the result's type, "all", "rows" or "blocks"), or an error."""
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"scaled_mm: a has {a.dim()} dimensions and b {b.dim()}; both must have 2")
    if a.dtype not in FP8 or b.dtype not in FP8 or (out_dtype or torch.bfloat16) not in RESULTS:
        raise NotImplementedError(f"scaled_mm: a is {a.dtype}, b {b.dtype} and the result {out_dtype}; it multiplies fp8, into "
                                  f"{', '.join(map(str, RESULTS))}")
    tensors = [a, b, scale_a, scale_b, *([] if bias is None else [bias])]
    if len({one.device for one in tensors}) > 1:
        raise RuntimeError(f"scaled_mm: tensors are on {', '.join(str(one.device) for one in tensors)}; all must be on one device")
    torch._check(a.shape[1] == b.shape[0],
                 lambda: f"scaled_mm: a is {tuple(a.shape)} and b {tuple(b.shape)}; the inner extents must be equal")
    (m, k), n = a.shape, b.shape[1]
    blocks = -(-k // 128)
    if scale_a.dtype is not torch.float32 or scale_b.dtype is not torch.float32:
        raise RuntimeError(f"scaled_mm: scale_a is {scale_a.dtype} and scale_b {scale_b.dtype}; both must be torch.float32")
    shapes = tuple(scale_a.shape), tuple(scale_b.shape)
    if scale_a.numel() == scale_b.numel() == 1:
        kind = "all"
    elif shapes == ((m, 1), (1, n)):
        kind = "rows"
    elif shapes == ((m, blocks), (blocks, -(-n // 128))):
        kind = "blocks"
    else:
        raise RuntimeError(f"scaled_mm: scales are {shapes[0]} and {shapes[1]}; for a {m} x {k} and b {k} x {n} they may be of one "
                           f"element each, {(m, 1)} and {(1, n)}, or {(m, blocks)} and {(blocks, -(-n // 128))}")
    if bias is not None and (kind == "blocks" or tuple(bias.shape) != (n, ) or bias.dtype not in RESULTS):
        raise RuntimeError(f"scaled_mm: bias is {bias.dtype} {tuple(bias.shape)}; it must have {n} elements of "
                           f"{', '.join(map(str, RESULTS))}, and scales of blocks take none")
    return out_dtype or torch.bfloat16, kind


def _fake(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
          out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> Tensor:
    dtype, _ = _checked(a, b, scale_a, scale_b, bias, out_dtype)
    return a.new_empty(a.shape[0], b.shape[1], dtype=dtype)


def _run(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
         out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> Tensor:
    given = a, b, scale_a, scale_b
    key = *map(look, given), None if bias is None else look(bias), out_dtype, use_fast_accum
    return (_PLANS[key] or _PLANS.made(key, *given, bias, out_dtype, use_fast_accum))(*given, bias)


def _plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None,
          fast: bool) -> Callable:
    dtype, kind = _checked(a, b, scale_a, scale_b, bias, out_dtype)
    shape = a.shape[0], b.shape[1]
    readable = a.numel() and b.numel() and is_hopper(a) and matrix_for_tma(a, b) and shape[1] * dtype.itemsize % 16 == 0
    if not readable:
        return lambda a, b, scale_a, scale_b, bias: _composed(a, b, scale_a, scale_b, bias, dtype, kind)
    c = a.new_empty(shape, dtype=dtype)
    if kind == "blocks":
        lying = _across(scale_a)
        grid, args, meta = block_scaled_gemm.arguments(a, b.T, c, lying, scale_b.T, programs(a))
        launch = Launch(a, block_scaled_gemm.kernel, grid, args, meta)

        def by_blocks(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: None) -> Tensor:
            c = torch.empty(shape, dtype=dtype, device=a.device)
            launch(a, b, c, _across(scale_a), scale_b)
            return c

        return by_blocks
    given = dict(row_scale=scale_a.reshape(-1), column_scale=scale_b.reshape(-1), promoted=not fast)
    if bias is not None:
        given["bias"] = bias.contiguous()
    sizes = gemm.room_for(*shape, a.shape[1], a.itemsize, programs(a), promoted=not fast)
    grid, args, meta = gemm.arguments(a, b, c, programs(a), **given, **dict(zip(("room", "flags"), scratch(a, sizes))))
    launch = Launch(a, gemm.kernel, grid, args, meta)

    def plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None) -> Tensor:
        c = torch.empty(shape, dtype=dtype, device=a.device)
        launch(a, b, c, *([] if bias is None else [bias.contiguous()]), scale_a.reshape(-1), scale_b.reshape(-1),
               *scratch(a, sizes))
        return c

    return plan


def _across(scales: Tensor) -> Tensor:
    """Scales of a contiguous along its rows, as the kernel reads them, each 128 of K a multiple of 16 bytes further on."""
    rows, blocks = scales.shape
    if scales.stride(0) == 1 and (scales.stride(1) % 4 == 0 or blocks == 1) and scales.data_ptr() % 16 == 0:
        return scales
    return scales.new_empty(blocks, -(-rows // 4) * 4)[:, :rows].T.copy_(scales)


def _composed(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None, dtype: torch.dtype, kind: str) -> Tensor:
    """The same by several launches."""
    left, right = a.float(), b.float()
    if kind == "blocks":
        left = left * scale_a.repeat_interleave(128, 1)[:, :a.shape[1]]
        right = right * scale_b.repeat_interleave(128, 0)[:b.shape[0]].repeat_interleave(128, 1)[:, :b.shape[1]]
        return MATMUL(left, right, torch.float32).to(dtype)
    product = MATMUL(left, right, torch.float32) * scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    return (product if bias is None else product + bias.float()).to(dtype)


_PLANS = Plans(_plan)
SCALED_MM = Operator("scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None, ScalarType? out_dtype=None, "
                     "bool use_fast_accum=False) -> Tensor", _run, _fake)
