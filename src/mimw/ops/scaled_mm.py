"""`mimw.ops.scaled_mm`: torch._scaled_mm on the library's kernels: fp8 with scales of all, rows and columns, or blocks, and mxfp8.

Input: two fp8 matrices with their scales. Output: their product. For example:

    scaled_mm(a, b, scale_a, scale_b)               one scale each, or (M, 1) and (1, N)
    scaled_mm(a, b, scale_a, scale_b)               (M, K / 128) and (K / 128, N / 128): 1 x 128 of a, 128 x 128 of b
    scaled_mm(a, b, scale_a, scale_b)               e8m0, (M, K / 32) and (K / 32, N): 32 numbers of a row of a, of a column of b
    torch.ops.mimw.scaled_mm(a, b, scale_a, scale_b)        the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import block_scaled_gemm, column_gemm, gemm, mfma_gemm, mfma_scaled_gemm, skinny_scaled_gemm

from .contract import Contract, Extents
from .launching import Launch, amd_chip, named_scratch, programs, scratch
from .matmul import MATMUL
from .notes import UNREADABLE, another_chip, takes
from .operator import Operator
from .plans import Plans, look
from .products import matrix_for_mfma, matrix_for_tma

BLOCK, MICRO = 128, 32      # numbers that share a scale: of blocks, and of microscaling formats


def scaled_mm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
              out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> Tensor:
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
    """
    return SCALED_MM(a, b, scale_a, scale_b, bias, out_dtype, use_fast_accum)


def _kind(of: Extents, given: dict) -> None:
    """Note the kind of scales, "all", "rows", "blocks" or "micro", or raise an error."""
    if given["scale_a"].dtype is torch.float8_e8m0fnu:
        return _micro(of, given)
    blocks = (of.m, -(-of.k // BLOCK)), (-(-of.k // BLOCK), -(-of.n // BLOCK))
    shapes = tuple(given["scale_a"].shape), tuple(given["scale_b"].shape)
    if given["scale_a"].numel() == given["scale_b"].numel() == 1:
        of.kind = "all"
    elif shapes == ((of.m, 1), (1, of.n)):
        of.kind = "rows"
    elif shapes == blocks and given["bias"] is None:
        of.kind = "blocks"
    else:
        bias = "no bias" if given["bias"] is None else "a bias"
        CONTRACT.refuse(f"scales are {shapes[0]} and {shapes[1]}, with {bias}; for a {of.m} x {of.k} and b {of.k} x {of.n} they "
                        f"may be "
                        f"of one element each, {(of.m, 1)} and {(1, of.n)}, or {blocks[0]} and {blocks[1]}, which take no bias")


def _micro(of: Extents, given: dict) -> None:
    wanted = (of.m, -(-of.k // MICRO)), (-(-of.k // MICRO), of.n)
    shapes = tuple(given["scale_a"].shape), tuple(given["scale_b"].shape)
    if shapes != wanted or given["bias"] is not None:
        bias = "no bias" if given["bias"] is None else "a bias"
        CONTRACT.refuse(f"scales of e8m0 are {shapes[0]} and {shapes[1]}, with {bias}; for a {of.m} x {of.k} and b {of.k} x {of.n} "
                        f"they are {wanted[0]} and {wanted[1]}, which take no bias")
    of.kind = "micro"


CONTRACT = Contract("scaled_mm", "a: fp8 (m, k)", "b: fp8 (k, n)",
                    "scale_a: fp32|e8m0 (m, cdiv(k, 128)) or (m, 1) or (1, 1) or (1) or () or (m, cdiv(k, 32))",
                    "scale_b: =scale_a (cdiv(k, 128), cdiv(n, 128)) or (1, n) or (1, 1) or (1) or () or (cdiv(k, 32), n)",
                    "bias?: float (n)", "out_dtype?: float", "-> c: out_dtype|bf16 (m, n)", flops="2 * m * n * k", also=_kind)


def _run(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
         out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> Tensor:
    given = a, b, scale_a, scale_b
    key = *map(look, given), None if bias is None else look(bias), out_dtype, use_fast_accum
    return (_PLANS[key] or _PLANS.made(key, *given, bias, out_dtype, use_fast_accum))(*given, bias)


def _plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None,
          fast: bool) -> Callable:
    of = CONTRACT.check(a=a, b=b, scale_a=scale_a, scale_b=scale_b, bias=bias, out_dtype=out_dtype)
    shape, dtype, kind = of.c.shape, of.c.dtype, of.kind
    if kind == "micro":
        return _of_micro(a, b, scale_a, scale_b, shape, dtype)
    chip = amd_chip(a)
    if kind != "blocks" and a.numel() and b.numel() and chip is not None and matrix_for_mfma(a, b, chip):
        return _on_amd(a, b, scale_a, scale_b, bias, dtype, chip)
    if not takes("gemm", another_chip(a), not (a.numel() and b.numel()) and "a tensor is empty",
                 (not matrix_for_tma(a, b) or shape[1] * dtype.itemsize % 16) and UNREADABLE):
        return lambda a, b, scale_a, scale_b, bias: _composed(a, b, scale_a, scale_b, bias, dtype, kind)
    c = a.new_empty(shape, dtype=dtype)
    if kind == "blocks" and skinny_scaled_gemm.suits(*shape, a.shape[1], programs(a)):
        return _few_by_blocks(a, b, scale_a, scale_b, c)
    if kind == "blocks":
        lying = _across(scale_a)
        grid, args, meta = block_scaled_gemm.arguments(a, b.T, c, lying, scale_b.T, programs(a))
        launch = Launch(a, block_scaled_gemm.kernel, grid, args, meta)

        def by_blocks(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: None) -> Tensor:
            c = torch.empty(shape, dtype=dtype, device=a.device)
            launch(a, b, c, _across(scale_a), scale_b)
            return c

        return by_blocks
    given = dict(row_scale=scale_a.reshape(-1), column_scale=scale_b.reshape(-1))
    if bias is not None:
        given["bias"] = bias.contiguous()
    if fast and column_gemm.suits(*shape, a.shape[1], a.itemsize, dtype.itemsize, programs(a), scaled=True):
        columns = Launch(a, column_gemm.kernel, *column_gemm.arguments(a, b, c, programs(a), **given))

        def by_columns(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None) -> Tensor:
            c = torch.empty(shape, dtype=dtype, device=a.device)
            columns(a, b, c, scale_a.reshape(-1), scale_b.reshape(-1), *([] if bias is None else [bias.contiguous()]))
            return c

        return by_columns
    given["promoted"] = not fast
    sizes = gemm.room_for(*shape, a.shape[1], a.itemsize, programs(a), promoted=not fast)
    grid, args, meta = gemm.arguments(a, b, c, programs(a), **given, **named_scratch(a, sizes))
    launch = Launch(a, gemm.kernel, grid, args, meta)

    def plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None) -> Tensor:
        c = torch.empty(shape, dtype=dtype, device=a.device)
        launch(a, b, c, *([] if bias is None else [bias.contiguous()]), scale_a.reshape(-1), scale_b.reshape(-1),
               *scratch(a, sizes))
        return c

    return plan


def _few_by_blocks(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, c: Tensor) -> Callable:
    """The plan for few rows with scales of blocks."""
    shape, dtype, sizes = c.shape, c.dtype, skinny_scaled_gemm.room_for(*c.shape, a.shape[1], programs(a))
    grid, args, meta = skinny_scaled_gemm.arguments(a, b.T, c, _across(scale_a), scale_b.T, *scratch(a, sizes), programs(a))
    launch = Launch(a, skinny_scaled_gemm.kernel, grid, args, meta)

    def plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: None) -> Tensor:
        c = torch.empty(shape, dtype=dtype, device=a.device)
        launch(a, b, _across(scale_a), scale_b, c, *scratch(a, sizes))
        return c

    return plan


def _on_amd(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None, dtype: torch.dtype, chip: str) -> Callable:
    """The plan with the GEMM for AMD's matrix cores."""
    shape = a.shape[0], b.shape[1]

    def scales(scale_a: Tensor, scale_b: Tensor) -> list[Tensor]:
        return [scale_a.reshape(-1), scale_b.reshape(-1)]

    launch = Launch(a, mfma_gemm.kernel, *mfma_gemm.arguments(
        a, b, a.new_empty(shape, dtype=dtype), chip, bias=None if bias is None else bias.contiguous(),
        **dict(zip(("row_scale", "column_scale"), scales(scale_a, scale_b)))))

    def plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None) -> Tensor:
        c = torch.empty(shape, dtype=dtype, device=a.device)
        launch(a, b, c, *([] if bias is None else [bias.contiguous()]), *scales(scale_a, scale_b))
        return c

    return plan


def _of_micro(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, shape: tuple, dtype: torch.dtype) -> Callable:
    """In one launch on gfx950 where its kernel takes the operands as they lie."""

    def given(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> list[Tensor]:
        c = torch.empty(shape, dtype=dtype, device=a.device)
        return [a, b.T, c, scale_a.contiguous(), scale_b.T.contiguous()]

    arrays = given(a, b, scale_a, scale_b)
    if amd_chip(a) != "gfx950" or not mfma_scaled_gemm.takes(*arrays):
        return lambda a, b, scale_a, scale_b, bias: _composed(a, b, scale_a, scale_b, bias, dtype, "micro")
    launch = Launch(a, mfma_scaled_gemm.kernel, *mfma_scaled_gemm.arguments(*arrays))

    def plan(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: None) -> Tensor:
        left, right, c, *scales = given(a, b, scale_a, scale_b)
        launch(*map(mfma_scaled_gemm.in_bytes, (left, right)), c, *map(mfma_scaled_gemm.in_bytes, scales))
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
    if kind == "micro":
        left = left * scale_a.float().repeat_interleave(MICRO, 1)[:, :a.shape[1]]
        right = right * scale_b.float().repeat_interleave(MICRO, 0)[:b.shape[0]]
        return MATMUL(left, right, torch.float32).to(dtype)
    if kind == "blocks":
        left = left * scale_a.repeat_interleave(128, 1)[:, :a.shape[1]]
        right = right * scale_b.repeat_interleave(128, 0)[:b.shape[0]].repeat_interleave(128, 1)[:, :b.shape[1]]
        return MATMUL(left, right, torch.float32).to(dtype)
    product = MATMUL(left, right, torch.float32) * scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    return (product if bias is None else product + bias.float()).to(dtype)


_PLANS = Plans(_plan)
SCALED_MM = Operator("scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None, ScalarType? out_dtype=None, "
                     "bool use_fast_accum=False) -> Tensor", _run, CONTRACT)
