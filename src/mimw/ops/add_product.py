"""`mimw::add_product_`: sums += a b, in one launch of the library's GEMM, whose stores add to the sums.

Input: a matrix, and two whose product is added to it. Output: nothing; the matrix is written. For example:

    ADD_PRODUCT(sums, logits.T, x)                  the gradient of a weight, summed over pieces of rows
    torch.ops.mimw.add_product_(sums, a, b)         the same

A product of its own and an addition would write, and read three times, as many numbers again. The L2 cache adds, each element once:
the result is the same each time. Products are rounded to the type of the sums before.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import gemm

from .contract import Contract, Extents
from .launching import Launch, is_exact, named_scratch, programs, scratch
from .matmul import MATMUL
from .notes import EXACT, UNREADABLE, another_chip, takes
from .operator import Operator
from .planned import Planned
from .products import rows_for_tma

CONTRACT = Contract("add_product_", "sums: bf16|fp16|fp32 (m, n)", "a: bf16|fp16|fp32 (m, k)", "b: =a (k, n)",
                    flops="2 * m * n * k")


def _plan(of: Extents, sums: Tensor, a: Tensor, b: Tensor, exact: bool) -> Callable[..., None]:
    if not takes("gemm", another_chip(a), exact and EXACT, not (a.numel() and b.numel()) and "a tensor is empty",
                 not (_reads(a) and _reads(b.T) and sums.stride(1) == 1 and rows_for_tma(sums)) and UNREADABLE):
        return _composed
    sizes = gemm.room_for(*sums.shape, a.shape[1], a.itemsize, programs(a))
    launch = Launch(a, gemm.kernel, *gemm.arguments(a, b, sums, programs(a), added=True, **named_scratch(a, sizes)))
    return lambda sums, a, b: launch(a, b, sums, *scratch(a, sizes))


def _reads(x: Tensor) -> bool:
    """True if TMA and the tensor cores read an operand as it lies: K, its last dimension, side by side, or of 16 bits the other."""
    by_rows = x.stride(1) == 1 and x.stride(0) != 1 and rows_for_tma(x)
    return by_rows or x.itemsize == 2 and x.shape[0] > 1 and x.stride(0) == 1 != x.stride(1) and rows_for_tma(x.T)


def _composed(sums: Tensor, a: Tensor, b: Tensor) -> None:
    """The same by several launches."""
    sums.data.copy_(sums.float() + MATMUL(a, b, torch.float32))     # the operator itself counts the version up


ADD_PRODUCT = Operator("add_product_(Tensor(a!) sums, Tensor a, Tensor b) -> ()", Planned(_plan, is_exact, of="a"), CONTRACT)

__all__ = ["ADD_PRODUCT"]
