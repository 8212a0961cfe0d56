"""`mimw.ops.matmul`: torch.matmul on the library's GEMM, with a plain kernel for what TMA does not take.

Input: two tensors of 1 or more dimensions. Output: their product. For example:

    c = matmul(a, b)                                (M, K) times (K, N); batches are broadcast as torch.matmul has it
    c = matmul(a8, b8, torch.bfloat16)              fp8 operands, a bf16 result
    torch.ops.mimw.matmul(a, b)                     the operator itself
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

from mimw.kernels import batched_gemm, column_gemm, gemm, mfma_gemm, plain_matmul, skinny_gemm
from mimw.kernels.products import TYPES

from .contract import Contract
from .launching import Launch, amd_chip, contiguous, has_e4m3, is_exact, named_scratch, programs, scratch, zeros
from .notes import EXACT, NO_COPY, UNREADABLE, another_chip, takes
from .operator import LOWER, Operator
from .plans import Plans, look
from .products import matrix_for_mfma

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
CONTRACT = Contract(
    "matmul", f"a: {TYPES} (..., m, k) or (k)", "b: =a|fp8 (..., k, n) or (k)", f"out_dtype?: {TYPES}",
    "-> c: out_dtype|=a|bf16 (..., m, n)", flops="2 * prod(front) * m * n * k", says="torch.matmul takes the other types")
FEW_ROWS, MANY_WEIGHTS = 64, 1 << 22    # of which `skinny_gemm` is the quicker kernel: the others' tiles are too few for the GPU
WORTH_A_COPY = 1 << 32  # products from which copying an operand for TMA costs less than the plain kernel's slower products


def matmul(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
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
    """
    return MATMUL(a, b, out_dtype)


def _run(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    exact = is_exact(a)
    key = look(a), look(b), out_dtype, exact
    return (_PLANS[key] or _PLANS.made(key, a, b, out_dtype, exact))(a, b)


def _plan(a: Tensor, b: Tensor, out_dtype: torch.dtype | None, exact: bool) -> Callable[[Tensor, Tensor], Tensor]:
    result = CONTRACT.check(a=a, b=b, out_dtype=out_dtype).c
    shape, dtype = result.shape, result.dtype
    if prod(shape) == 0 or a.shape[-1] == 0:
        return lambda a, b: a.new_zeros(shape, dtype=dtype)
    if torch.float8_e4m3fn in (a.dtype, b.dtype, dtype) and not has_e4m3(a):
        return lambda a, b: MATMUL(_widened(a), _widened(b), torch.float32).to(dtype)
    left, right = _left(a, b.dim()), _right(b)
    c = a.new_empty(shape, dtype=dtype)
    if left.dim() == right.dim() == 2 and takes("gemm", another_chip(a), exact and EXACT):
        plan = _by_tma(a, b, left, right, shape, dtype)
        if plan is not None:
            return plan
    if left.dim() == right.dim() == 2 and (plan := _on_amd(a, b, left, right, shape, dtype)) is not None:
        return plan
    batch = shape[:max(a.dim(), b.dim()) - 2] if left.dim() > 2 or right.dim() > 2 else ()
    left, right = _batched(left, batch), _batched(right, batch)
    c = c.view(left.shape[0], left.shape[1], right.shape[2])
    if batch and takes("batched_gemm", another_chip(a), exact and EXACT, not _batches_for_tma(left, right, c) and UNREADABLE):
        kernel, (grid, args, meta) = batched_gemm.kernel, batched_gemm.arguments(left, right, c, programs(a))
    else:
        kernel, (grid, args, meta) = plain_matmul.kernel, plain_matmul.arguments(left, right, c, exact)
    launch = Launch(a, kernel, grid, args, meta)
    a_views, b_views = left.data_ptr() == a.data_ptr(), right.data_ptr() == b.data_ptr()
    dims, strides, of_its_own = b.dim(), contiguous(shape), None if dtype == a.dtype else dtype

    def plan(a: Tensor, b: Tensor) -> Tensor:
        c = a.new_empty_strided(shape, strides, dtype=of_its_own)
        launch(a if a_views else _batched(_left(a, dims), batch), b if b_views else _batched(_right(b), batch), c)
        return c

    return plan


def _widened(x: Tensor) -> Tensor:
    """Any fp8 is a number of fp16."""
    return x.to(torch.float16) if x.dtype in FP8 else x


def _left(a: Tensor, b_dims: int) -> Tensor:
    """a as one matrix where one b serves all of it."""
    if a.dim() == 1:
        return a.unsqueeze(0)
    return a.reshape(-1, a.shape[-1]) if b_dims <= 2 and a.dim() > 2 else a


def _right(b: Tensor) -> Tensor:
    return b.unsqueeze(-1) if b.dim() == 1 else b


def _batched(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The matrices as (Z, rows, columns)."""
    return x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def _tma_reads(x: Tensor, row: int, step: int) -> bool:
    """True if TMA takes the matrix as it lies: the elements of a row side by side, rows aligned to and apart by 16 bytes."""
    return step == 1 and row * x.itemsize % 16 == 0 and 0 < row and x.data_ptr() % 16 == 0


def _batches_for_tma(a: Tensor, b: Tensor, c: Tensor) -> bool:
    """True if TMA takes all three batches of matrices."""
    if not all(x.stride(0) * x.itemsize % 16 == 0 and x.stride(0) >= 0 for x in (a, b, c)) or b.shape[2] == 1:
        return False
    lies_nk, lies_kn = _tma_reads(b, b.stride(2), b.stride(1)), a.itemsize == 2 and _tma_reads(b, b.stride(1), b.stride(2))
    return _tma_reads(a, a.stride(1), a.stride(2)) and (lies_nk or lies_kn) and _tma_reads(c, c.stride(1), c.stride(2))


def _by_tma(a: Tensor, b: Tensor, left: Tensor, right: Tensor, shape: tuple, dtype: torch.dtype) -> Callable | None:
    """The plan with the GEMM for Hopper, or None where copies for TMA would be needed and not pay."""
    (m, k), n = left.shape, right.shape[1]
    lies_km = m > 1 and a.itemsize == 2 and _tma_reads(left, left.stride(1), left.stride(0)) and left.data_ptr() == a.data_ptr()
    copy_a = left.data_ptr() != a.data_ptr() or not (lies_km or _tma_reads(left, *left.stride()))
    lies_nk = n > 1 and _tma_reads(right, right.stride(1), right.stride(0))
    lies_kn = n > 1 and a.itemsize == 2 and _tma_reads(right, *right.stride())
    copy_b = not (lies_nk or lies_kn)
    copy_c = n * dtype.itemsize % 16 != 0
    if lies_nk and not (lies_km or copy_a or copy_c) and column_gemm.suits(m, n, k, a.itemsize, dtype.itemsize, programs(a)):
        return _of_columns(a, left, right, shape, dtype)
    if not (lies_km or copy_a or copy_b) and m <= FEW_ROWS and n * k >= MANY_WEIGHTS:
        return _of_few_rows(a, left, right, shape, dtype)
    if not takes("gemm", (copy_a or copy_b or copy_c) and m * n * k < WORTH_A_COPY and NO_COPY):
        return None
    if copy_a:
        left = copied(left)
    if copy_b:
        right = copied(right.T).T
    c = _rows(m, n, dtype, a.device)
    sizes = gemm.room_for(m, n, k, a.itemsize, programs(a))
    grid, args, meta = gemm.arguments(left, right, c, programs(a), **named_scratch(a, sizes))
    launch = Launch(a, gemm.kernel, grid, args, meta)
    dims, strides, of_its_own = b.dim(), contiguous(shape), None if dtype == a.dtype else dtype

    def plan(a: Tensor, b: Tensor) -> Tensor:
        if not (copy_a or copy_b or copy_c):
            c = a.new_empty_strided(shape, strides, dtype=of_its_own)
            launch(a, b, c, *scratch(a, sizes))
            return c
        c = _rows(m, n, dtype, a.device) if copy_c else a.new_empty(shape, dtype=dtype)
        launch(copied(_left(a, dims)) if copy_a else a, copied(_right(b).T) if copy_b else b, c,
               *scratch(a, sizes))
        return c.contiguous().view(shape) if copy_c else c

    return plan


def _on_amd(a: Tensor, b: Tensor, left: Tensor, right: Tensor, shape: tuple, dtype: torch.dtype) -> Callable | None:
    """The plan with the GEMM for AMD's matrix cores, or None where its copies would be narrow, or the result is fp8."""
    chip = amd_chip(a)
    if chip is None or not takes("mfma_gemm", dtype in FP8 and "the result is fp8", (left.data_ptr() != a.data_ptr() or
                                 not matrix_for_mfma(left, right, chip)) and "copies of 16 bytes cannot read a matrix as it lies"):
        return None
    c = a.new_empty(left.shape[0], right.shape[1], dtype=dtype)
    launch = Launch(a, mfma_gemm.kernel, *mfma_gemm.arguments(left, right, c, chip))
    dims, strides = b.dim(), contiguous(shape)

    def plan(a: Tensor, b: Tensor) -> Tensor:
        c = a.new_empty_strided(shape, strides, dtype=dtype)
        launch(_left(a, dims), b, c)
        return c

    return plan


def _of_columns(a: Tensor, left: Tensor, right: Tensor, shape: tuple, dtype: torch.dtype) -> Callable:
    """The plan with the kernel whose programs have columns of their own."""
    m, n, strides = left.shape[0], right.shape[1], contiguous(shape)
    launch = Launch(a, column_gemm.kernel, *column_gemm.arguments(left, right, a.new_empty(m, n, dtype=dtype), programs(a)))

    def plan(a: Tensor, b: Tensor) -> Tensor:
        c = a.new_empty_strided(shape, strides, dtype=dtype)
        launch(a, b, c)
        return c

    return plan


def _of_few_rows(a: Tensor, left: Tensor, right: Tensor, shape: tuple, dtype: torch.dtype) -> Callable:
    """The plan with the kernel whose programs share out the weights in equal parts."""
    (m, _), n, strides = left.shape, right.shape[1], contiguous(shape)
    room, flags = skinny_gemm.room_for(m, n, programs(a))
    scratch = a.new_empty(room, dtype=torch.float32)
    grid, args, meta = skinny_gemm.arguments(left, right, a.new_empty(m, n, dtype=dtype), scratch, zeros(a, flags), programs(a))
    launch = Launch(a, skinny_gemm.kernel, grid, args, meta)

    def plan(a: Tensor, b: Tensor) -> Tensor:
        c = a.new_empty_strided(shape, strides, dtype=dtype)
        launch(a, b, c, a.new_empty(room, dtype=torch.float32), zeros(a, flags))
        return c

    return plan


def _rows(m: int, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An empty (m, n) whose rows are multiples of 16 bytes apart."""
    whole = 16 // dtype.itemsize
    return torch.empty(m, -(-n // whole) * whole, dtype=dtype, device=device)[:, :n]


def copied(x: Tensor) -> Tensor:
    """A copy that TMA reads."""
    return _rows(*x.shape, x.dtype, x.device).copy_(x)


_PLANS = Plans(_plan)


def _save(ctx, inputs, output) -> None:
    a, b, _ = inputs
    if a.dtype in FP8:
        raise NotImplementedError("matmul: fp8 operands have no derivative; detach them, or multiply in bf16")
    ctx.save_for_backward(a, b)


def _backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    """grad_a = grad b^T, grad_b = a^T grad, summed over what was broadcast; of one b for all rows a product of two matrices."""
    a, b = ctx.saved_tensors
    gradient = gradient.to(a.dtype)
    left, right = a.unsqueeze(0) if a.dim() == 1 else a, b.unsqueeze(1) if b.dim() == 1 else b
    gradient = gradient.unsqueeze(-1) if b.dim() == 1 else gradient
    gradient = gradient.unsqueeze(-2) if a.dim() == 1 else gradient
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_a = MATMUL(gradient, right.mT, None).sum_to_size(left.shape).reshape(a.shape)
    if ctx.needs_input_grad[1] and b.dim() == 2:
        of_b = gradient_of_right(left.reshape(-1, left.shape[-1]), gradient.reshape(-1, gradient.shape[-1]), b)
    elif ctx.needs_input_grad[1]:
        of_b = MATMUL(left.mT, gradient, None).sum_to_size(right.shape).reshape(b.shape)
    return of_a, of_b, None


def gradient_of_right(a: Tensor, gradient: Tensor, b: Tensor) -> Tensor:
    """a^T gradient, of two matrices, that lies in memory as b does: a weight that was given transposed gets its gradient without a
    copy."""
    if b.stride(0) == 1 and b.stride(1) != 1:
        return MATMUL(gradient.mT, a, None).mT
    return MATMUL(a.mT, gradient, None)


MATMUL = Operator("matmul(Tensor a, Tensor b, ScalarType? out_dtype=None) -> Tensor", _run, CONTRACT, _save, _backward, LOWER)
