"""What the products over several GPUs ask of their operands, and what they do with what the kernels do not take.

Input: a (M, K) and b (K, N) of one rank. Output: the number of ranks, errors, answers. For example:

    checked("all_gather_matmul", a, b, group_name)      how many ranks; or a RuntimeError or NotImplementedError
    for_kernels(a, b)                                   whether the kernels multiply matrices of such shapes
    readable(a, b, fits_tma(a, b))                      a and b, or copies of them that TMA can read
    all_rows(world, a)                                  a of all ranks, one under another, by NCCL or simulated
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ..launching import is_hopper
from ..matmul import MATMUL
from ..products import matrix_for_tma, rows_for_tma
from .launching import World, simulated, world_of

TYPES = (torch.bfloat16, torch.float16)


def checked(name: str, a: Tensor, b: Tensor, group_name: str) -> int:
    """How many ranks there are, if a and b can be multiplied."""
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"{name}: a has {a.dim()} dimensions and b {b.dim()}; both must be matrices")
    if a.dtype not in TYPES or a.dtype != b.dtype:
        raise NotImplementedError(f"{name}: a is {a.dtype} and b {b.dtype}; both must be bf16, or both fp16. For others: "
                                  "torch.distributed's collectives and mimw.ops.matmul")
    if a.device != b.device:
        raise RuntimeError(f"{name}: a is on {a.device} and b on {b.device}; both must be on one device")
    torch._check(a.shape[1] == b.shape[0], lambda: f"{name}: a is {a.shape[0]} x {a.shape[1]} and b {b.shape[0]} x {b.shape[1]}; "
                                                   f"the inner extents {a.shape[1]} and {b.shape[0]} must be equal")
    return world_of(group_name).size


def scattered_rows(name: str, a: Tensor, ranks: int) -> int:
    """How many of a's rows each rank gets."""
    torch._check(a.shape[0] % ranks == 0, lambda: f"{name}: the {a.shape[0]} rows of a cannot be scattered over {ranks} ranks: "
                                                  f"they must be a multiple of {ranks}")
    return a.shape[0] // ranks


def for_kernels(a: Tensor, b: Tensor) -> bool:
    """Whether the kernels multiply such matrices: on sm_90, or simulated, not empty, rows of whole 16 bytes. All ranks have to come
    to one answer, so it depends on shapes alone: strides and addresses may differ by rank."""
    empty = 0 in a.shape or 0 in b.shape
    return not empty and is_hopper(a) and a.shape[1] % 8 == 0 and b.shape[1] % 8 == 0


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
    dist.all_gather_into_tensor(whole, a, group=world.group)
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
