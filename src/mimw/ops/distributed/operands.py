"""What the products over several GPUs ask of their operands, and what they do with what the kernels do not take.

Input: a (M, K) and b (K, N) of one rank. Output: lines of contracts, answers. For example:

    RankContract("all_gather_matmul", *TENSORS, "-> c: =a (rows * ranks, n)")
    for_kernels("all_gather_gemm", a, b)                whether the kernel multiplies matrices of such shapes
    readable(a, b, fits_tma(a, b))                      a and b, or copies of them that TMA can read
    all_rows(world, a)                                  a of all ranks, one under another, by NCCL or simulated
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ..matmul import MATMUL
from ..notes import another_chip, takes
from ..products import matrix_for_tma, rows_for_tma
from .launching import World, simulated

TENSORS = "a: bf16|fp16 (rows, k)", "b: =a (k, n)"      # lines of contracts
ALONE = "the group has one rank"
OTHERS = "For others: torch.distributed's collectives and mimw.ops.matmul"


def for_kernels(kernel: str, a: Tensor, b: Tensor) -> bool:
    """True if the kernel multiplies such matrices: on sm_90, or simulated, not empty, rows of whole 16 bytes. All ranks have to
    come to one answer, so it depends on shapes alone: strides and addresses may differ by rank."""
    return takes(kernel, another_chip(a), 0 in (*a.shape, *b.shape) and "a tensor is empty", (a.shape[1] % 8 or b.shape[1] % 8) and
                 "K and N must be multiples of 8: rows of 16 bytes, for TMA")


def fits_tma(a: Tensor, b: Tensor, packed: bool = False) -> tuple[bool, bool]:
    """Of each of a and b whether TMA can read it where it lies; `packed`: a's rows have to lie one behind the other, too."""
    of_a = rows_for_tma(a) and a.stride(1) == 1 and (a.is_contiguous() or not packed)
    return of_a, matrix_for_tma(a.new_empty(1, 8), b)       # whichever a is, it will fit


def readable(a: Tensor, b: Tensor, fits: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
    """a and b, those that do not fit as copies."""
    return a if fits[0] else _copied(a), b if fits[1] else _copied(b)


def _copied(x: Tensor) -> Tensor:
    """Contiguous, at an address that TMA takes."""
    return x.clone(memory_format=torch.contiguous_format)


def all_rows(world: World, a: Tensor) -> Tensor:
    """The rows of all ranks, one under another."""
    a = a.contiguous()
    if not a.is_cuda:
        return simulated("all_rows", world, (a, ), lambda ranks, every: [torch.cat(every)] * len(every))
    whole = a.new_empty(world.size * a.shape[0], a.shape[1])
    world.collective(dist.all_gather_into_tensor, whole, a)
    return whole


def keep_operands(ctx, inputs: tuple[Tensor, Tensor, str], output: Tensor) -> None:
    """Note a, b and the group's name for the gradients of a product."""
    a, b, ctx.group_name = inputs
    ctx.save_for_backward(a, b)


def summed(products: Sequence[Tensor]) -> Tensor:
    """The sum in fp32, by rank, of products that are there."""
    total = products[0].float()
    for one in products[1:]:
        total = total + one.float()
    return total.to(products[0].dtype)


def product(a: Tensor, b: Tensor) -> Tensor:
    return MATMUL(a, b, None)
