"""`mimw.ops.distributed.matmul_reduce_scatter` and `matmul_all_reduce`: the sum of all GPUs' products, added while they are
computed.

Input: this rank's a and b. Output: this rank's rows of the sum, or all of them. For example:

    c = matmul_reduce_scatter(a, b)         (M, K) times (K, N) gives (M / ranks, N): rows r M / ranks on at rank r
    c = matmul_all_reduce(a, b)             (M, N) at every rank, the same to the bit
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import mimw
from mimw.kernels import gemm_reduce_scatter

from ..launching import SIMULATED_PROGRAMS
from ..notes import takes
from ..operator import LOWER, Operator
from ..plans import look
from .contract import RankContract
from .gemm_memory import memory_of
from .launching import RankLaunch, RankPlans, World, agreed, name_of, programs_beside_copies, simulated, tensors_of, world_of
from .operands import ALONE, OTHERS, TENSORS, fits_tma, for_kernels, keep_operands, product, readable, summed
from .sum_engine import SumEngines

SCATTER, ALL = "matmul_reduce_scatter", "matmul_all_reduce"
FLOPS = "2 * rows * k * n"
CONTRACTS = {
    SCATTER: RankContract(SCATTER, *TENSORS, "rows % ranks == 0 -- the rows of a cannot be scattered over the ranks: they must be "
                          "a multiple of them", "-> c: =a (rows // ranks, n)", flops=FLOPS, says=OTHERS),
    ALL: RankContract(ALL, *TENSORS, "-> c: =a (rows, n)", flops=FLOPS, says=OTHERS)}


def matmul_reduce_scatter(a: Tensor, b: Tensor, group: Any = None) -> Tensor:
    """This rank's rows of the sum over all ranks of a b. All ranks call it.

    args:      a      (M, K), the same shape at all ranks, M a multiple of the number of ranks: bf16, fp16, any strides
               b      (K, N) of a's type, the same shape at all ranks, any strides
               group  a process group, its name, or None for the default one
    returns:   (M / ranks, N), contiguous; rank r has the rows from r M / ranks on
    computed:  on sm_90 by `mimw.kernels.gemm_reduce_scatter`, where K and N are multiples of 8 (what TMA cannot read is copied
               first), with copy engines that carry the sums, if they are many, also in CUDA graphs; else by `mimw.ops.matmul` and
               NCCL
    order:     sums of the kernel are in fp32, the own product's first, then those of the next ranks, each rounded to a's type on
               its way: so the same each time, to the bit. Of calls as `all_gather_matmul`
    gradients  of both: a's by `all_gather_matmul`
    errors:    as `all_gather_matmul`
    """
    return MATMUL_REDUCE_SCATTER(a, b, name_of(group))


def matmul_all_reduce(a: Tensor, b: Tensor, group: Any = None) -> Tensor:
    """The sum over all ranks of a b, at all of them the same to the bit; as `matmul_reduce_scatter`, but for any M.

    returns:   (M, N), contiguous
    gradients  none: which sum is meant by it depends on what follows at the ranks
    """
    return MATMUL_ALL_REDUCE(a, b, name_of(group))


def _run_scatter(a: Tensor, b: Tensor, group_name: str) -> Tensor:
    return _run(SCATTER, a, b, group_name)


def _run_all(a: Tensor, b: Tensor, group_name: str) -> Tensor:
    return _run(ALL, a, b, group_name)


def _run(name: str, a: Tensor, b: Tensor, group_name: str) -> Tensor:
    world, key = world_of(group_name), (name, look(a), look(b))
    plans = _PLANS.of(world)
    return (plans[key] or plans.made(key, world, name, a, b))(a, b)


def _plan(world: World, name: str, a: Tensor, b: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    everywhere = name == ALL
    of = CONTRACTS[name].check(a=a, b=b, ranks=world.size)
    m, k, n, ranks = of.rows, of.k, of.n, of.ranks
    if not takes("gemm_reduce_scatter", ranks == 1 and ALONE):
        return product
    if a.is_cuda:
        agreed(world, name, a, b)
    if not for_kernels("gemm_reduce_scatter", a, b):
        return partial(_by_collective, world, name)
    if not a.is_cuda:
        return lambda a, b: simulated(name, world, (a, b), partial(_at_all_ranks, everywhere))
    return _launching(world, a, b, everywhere, gemm_reduce_scatter.chosen_for(m, n, k, everywhere, _may_carry(), ranks))


def _may_carry() -> bool:
    """Not where the host waits for the end of each launch: the copies are started behind the launch, which waits for them."""
    return os.environ.get("CUDA_LAUNCH_BLOCKING", "0") == "0"


def _launching(world: World, a: Tensor, b: Tensor, everywhere: bool, chosen: gemm_reduce_scatter.Configuration
               ) -> Callable[[Tensor, Tensor], Tensor]:
    """One launch, and copies beside it if sums are carried."""
    (m, k), n, count, dtype = a.shape, b.shape[1], programs_beside_copies(world, a), str(a.dtype).removeprefix("torch.")
    rows, fits = m if everywhere else m // world.size, fits_tma(a, b)
    a, b = readable(a, b, fits)
    sizes = gemm_reduce_scatter.room_for(m, n, k, count, world.size, dtype, everywhere, chosen)
    workspace = memory_of(world, (ALL if everywhere else SCATTER, m, n, k, dtype), sizes)
    grid, args, meta = gemm_reduce_scatter.arguments(a, b, a.new_empty(rows, n), workspace, world, count, chosen, everywhere)
    launch = RankLaunch(world, a, gemm_reduce_scatter.kernel, grid, args, meta, tuple(workspace.values()))

    def put(a: Tensor, b: Tensor) -> Tensor:
        c = a.new_empty(rows, n)
        launch(*readable(a, b, fits), c)
        return c

    if chosen.parcel() is None:
        return put
    carry = getattr(world, "idle", None) or SumEngines(world, workspace, m, n, everywhere, chosen)

    def carried(a: Tensor, b: Tensor) -> Tensor:
        (a, b), c = readable(a, b, fits), a.new_empty(rows, n)
        carry.begin()
        launch(a, b, c)
        carry()
        carry.joined()
        return c

    return carried


def _by_collective(world: World, name: str, a: Tensor, b: Tensor) -> Tensor:
    """What the kernel does not take: the product, then torch.distributed's sum; of the CPU all simulated."""
    if not a.is_cuda:
        return simulated(name, world, (a, b), partial(_products_at_all_ranks, name == ALL))
    whole = product(a, b)
    if name == ALL:
        world.collective(dist.all_reduce, whole)
        return whole
    part = whole.new_empty(whole.shape[0] // world.size, whole.shape[1])
    world.collective(dist.reduce_scatter_tensor, part, whole)
    return part


def _products_at_all_ranks(everywhere: bool, ranks: mimw.World, all_a: list[Tensor], all_b: list[Tensor]) -> list[Tensor]:
    whole = summed([product(a, b) for a, b in zip(all_a, all_b)])
    return [whole.clone() for _ in all_a] if everywhere else [one.clone() for one in whole.chunk(len(ranks))]


def _at_all_ranks(everywhere: bool, ranks: mimw.World, all_a: list[Tensor], all_b: list[Tensor]) -> list[Tensor]:
    """The operator at every rank of a simulated world."""
    (m, k), n, size = all_a[0].shape, all_b[0].shape[1], len(ranks)
    dtype = str(all_a[0].dtype).removeprefix("torch.")
    sizes = gemm_reduce_scatter.room_for(m, n, k, SIMULATED_PROGRAMS, size, dtype, everywhere)
    workspace = {name: ranks.symmetric(*one, name) for name, one in sizes.items()}
    c = ranks.each([one.new_empty(m if everywhere else m // size, n) for one in all_a], "c")
    grid, args, meta = gemm_reduce_scatter.arguments(ranks.each(all_a, "a"), ranks.each(all_b, "b"), c, workspace, ranks,
                                                     SIMULATED_PROGRAMS, everywhere=everywhere)
    mimw.simulate(gemm_reduce_scatter.kernel, grid, *args, **meta)
    return tensors_of(c)


def _backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    """grad_a = the gradients of all rows times b^T, grad_b = a^T times them."""
    a, b = ctx.saved_tensors
    gradient = gradient.to(a.dtype).contiguous()
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_a = torch.ops.mimw.all_gather_matmul(gradient, b.mT, ctx.group_name)
    if ctx.needs_input_grad[1]:
        of_b = product(a.mT, torch.ops.mimw.all_rows(gradient, ctx.group_name))
    return of_a, of_b, None


_PLANS = RankPlans(_plan)
MATMUL_REDUCE_SCATTER = Operator("matmul_reduce_scatter(Tensor a, Tensor b, str group_name) -> Tensor", _run_scatter,
                                 CONTRACTS[SCATTER], keep_operands, _backward, LOWER)
MATMUL_ALL_REDUCE = Operator("matmul_all_reduce(Tensor a, Tensor b, str group_name) -> Tensor", _run_all, CONTRACTS[ALL],
                             autocast=LOWER)
