"""`mimw.ops.distributed.all_gather_matmul`: the rows of all GPUs times a matrix, the product beginning while rows arrive.

Input: this rank's rows, and b. Output: the product of all rows. For example:

    c = all_gather_matmul(rows, b)          (M / ranks, K) times (K, N) gives (M, N) at every rank
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import mimw
from mimw.kernels import all_gather_gemm

from ..launching import SIMULATED_PROGRAMS
from ..notes import takes
from ..operator import LOWER, Operator
from ..plans import look
from .contract import RankContract
from .copy_engine import CopyEngines
from .gemm_memory import memory_of
from .launching import RankLaunch, RankPlans, World, agreed, name_of, programs_beside_copies, simulated, tensors_of, world_of
from .operands import ALONE, OTHERS, TENSORS, all_rows, fits_tma, for_kernels, keep_operands, product, readable

NAME = "all_gather_matmul"
CONTRACT = RankContract(NAME, *TENSORS, "-> c: =a (rows * ranks, n)", flops="2 * rows * ranks * k * n", says=OTHERS)
GATHERED = RankContract("all_rows", "a: any (rows, k)", "-> whole: =a (rows * ranks, k)")


def all_gather_matmul(a: Tensor, b: Tensor, group: Any = None) -> Tensor:
    """The rows of all ranks, one under another, times b. All ranks call it.

    args:      a      (M / ranks, K), this rank's rows, the same shape at all ranks: bf16, fp16, any strides
               b      (K, N) of a's type, the same shape at all ranks, any strides; what is in it may differ by rank
               group  a process group, its name, or None for the default one
    returns:   (M, N), contiguous, sums in fp32
    computed:  on sm_90 by `mimw.kernels.all_gather_gemm`, where K and N are multiples of 8 (what TMA cannot read is copied first):
               rows come by copy engines, in CUDA graphs and in the first call for shapes by the kernel itself; else gathered by
               NCCL and multiplied by `mimw.ops.matmul`
    gradients  of both: a's by `matmul_reduce_scatter`, b's with the rows gathered once more
    order:     calls of a group follow each other, in the same order at all ranks, on one stream at a time; CUDA graphs too, at all
               ranks or at none. The first call for shapes is made outside of graphs
    errors:    RuntimeError where extents or devices do not fit; NotImplementedError for other types; RanksDisagree where shapes or
               types differ by rank, found at the first call for each; those of `mimw.distributed.World`
    """
    return ALL_GATHER_MATMUL(a, b, name_of(group))


def _run(a: Tensor, b: Tensor, group_name: str) -> Tensor:
    world, key = world_of(group_name), (look(a), look(b))
    plans = _PLANS.of(world)
    return (plans[key] or plans.made(key, world, a, b))(a, b)


def _plan(world: World, a: Tensor, b: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    CONTRACT.check(a=a, b=b, ranks=world.size)
    if not takes("all_gather_gemm", world.size == 1 and ALONE):
        return product
    called = a.is_cuda and not agreed(world, NAME, a, b)
    if not for_kernels("all_gather_gemm", a, b):
        return lambda a, b: product(all_rows(world, a), b)
    (rows, k), n, count = a.shape, b.shape[1], programs_beside_copies(world, a)
    m = rows * world.size
    chosen = all_gather_gemm.chosen_for(m, n, k, True)
    try:
        all_gather_gemm.piece_of_rows(rows, k, chosen)
    except ValueError as error:     # no rows that copies divide
        takes("all_gather_gemm", str(error))
        return lambda a, b: product(all_rows(world, a), b)
    if not a.is_cuda:
        return lambda a, b: simulated(NAME, world, (a, b), _at_all_ranks)
    fits = fits_tma(a, b, packed=True)
    a, b = readable(a, b, fits)
    pushed, carried = _pushed(world, a, b, m, n, k, count, called), _carried(world, a, b, m, n, k, count)

    def run(a: Tensor, b: Tensor) -> Tensor:
        nonlocal called
        (a, b), c = readable(a, b, fits), a.new_empty(m, n)
        (carried if called and not torch.cuda.is_current_stream_capturing() else pushed)(a, b, c)
        called = True
        return c

    return run


def _pushed(world: World, a: Tensor, b: Tensor, m: int, n: int, k: int, count: int, load: bool = False
            ) -> Callable[[Tensor, Tensor, Tensor], None]:
    """Rows by the programs: one launch, which graphs can hold. The group's first call for shapes takes it, too: when a graph is
    recorded, it is compiled. `load`: that call has been, with other strides, so it is compiled here."""
    dtype = str(a.dtype).removeprefix("torch.")
    workspace = memory_of(world, (NAME, m, n, k, dtype), all_gather_gemm.room_for(m, n, k, count, world.size, dtype))
    c = a.new_empty(m, n)
    grid, args, meta = all_gather_gemm.arguments(a, b, c, workspace, world, count)
    launch = RankLaunch(world, a, all_gather_gemm.kernel, grid, args, meta, tuple(workspace.values()))
    if load:
        launch.load(a, workspace["gathered"], b, c, a)
    return lambda a, b, c: launch(a, workspace["gathered"], b, c, a)


def _carried(world: World, a: Tensor, b: Tensor, m: int, n: int, k: int, count: int) -> Callable[[Tensor, Tensor, Tensor], None]:
    """Rows by copy engines, which take nothing from the product."""
    dtype, chosen = str(a.dtype).removeprefix("torch."), all_gather_gemm.chosen_for(m, n, k, False)
    sizes = all_gather_gemm.room_for(m, n, k, count, world.size, dtype, False, chosen)
    workspace = memory_of(world, (NAME, "carried", m, n, k, dtype), sizes)
    grid, args, meta = all_gather_gemm.arguments(a, b, a.new_empty(m, n), workspace, world, count, chosen, False)
    launch = RankLaunch(world, a, all_gather_gemm.kernel, grid, args, meta, tuple(workspace.values()))
    opening = all_gather_gemm.opening(workspace, world)
    opened = RankLaunch(world, a, all_gather_gemm.open_gather, *opening, tuple(workspace.values()))
    bring = getattr(world, "idle", None) or CopyEngines(world, workspace, m // world.size, k, chosen)

    def run(a: Tensor, b: Tensor, c: Tensor) -> None:
        opened()
        bring(a)
        launch(a, workspace["gathered"], b, c)
        bring.joined()

    return run


def _at_all_ranks(ranks: mimw.World, all_a: list[Tensor], all_b: list[Tensor]) -> list[Tensor]:
    """The operator at every rank of a simulated world."""
    (rows, k), n, size = all_a[0].shape, all_b[0].shape[1], len(ranks)
    dtype = str(all_a[0].dtype).removeprefix("torch.")
    sizes = all_gather_gemm.room_for(rows * size, n, k, SIMULATED_PROGRAMS, size, dtype)
    workspace = {name: ranks.symmetric(*one, name) for name, one in sizes.items()}
    c = ranks.each([one.new_empty(rows * size, n) for one in all_a], "c")
    launch = all_gather_gemm.arguments(ranks.each(all_a, "a"), ranks.each(all_b, "b"), c, workspace, ranks, SIMULATED_PROGRAMS)
    grid, args, meta = launch
    mimw.simulate(all_gather_gemm.kernel, grid, *args, **meta)
    return tensors_of(c)


def _backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    """grad_a = this rank's rows of the sum of grad b^T, grad_b = A^T grad."""
    a, b = ctx.saved_tensors
    gradient = gradient.to(a.dtype).contiguous()
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_a = torch.ops.mimw.matmul_reduce_scatter(gradient, b.mT, ctx.group_name)
    if ctx.needs_input_grad[1]:
        of_b = product(torch.ops.mimw.all_rows(a, ctx.group_name).mT, gradient)
    return of_a, of_b, None


def _rows(a: Tensor, group_name: str) -> Tensor:
    return all_rows(world_of(group_name), a)


_PLANS = RankPlans(_plan)
ALL_GATHER_MATMUL = Operator("all_gather_matmul(Tensor a, Tensor b, str group_name) -> Tensor", _run, CONTRACT, keep_operands,
                             _backward, LOWER)
ALL_ROWS = Operator("all_rows(Tensor a, str group_name) -> Tensor", _rows, GATHERED)
