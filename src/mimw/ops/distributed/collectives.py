"""`mimw.ops.distributed.all_reduce`, `all_gather` and `reduce_scatter`: collectives by kernels of the library.

Input: this rank's x. Output: the sum over the ranks, x of all ranks, or this rank's part of the sum. For example:

    y = all_reduce(x)                   of x's shape, the same bits at every rank
    all_reduce_(x)                      the same in the place of x
    y = all_gather(x)                   (M, ..) gives (ranks M, ..): rank r's from row r M on
    y = reduce_scatter(x)               (M, ..) gives (M / ranks, ..): rank r has the sum of rows r M / ranks on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import mimw
from mimw.errors import NotSymmetric
from mimw.kernels import collectives as library
from mimw.runtime.in_place import refuse_leaves

from ..notes import takes
from ..operator import Operator
from ..plans import look
from .contract import RankContract
from .launching import RankLaunch, RankPlans, World, agreed, name_of, simulated, tensors_of, world_of
from .operands import ALONE

CONTRACTS = {
    "all_reduce": RankContract("all_reduce", "x: float (*any)", "-> out: =x (*any)"),
    "all_reduce_": RankContract("all_reduce_", "x: float (*any) contiguous"),
    "all_gather": RankContract("all_gather", "x: float (rows, *rest)", "-> out: =x (rows * ranks, *rest)"),
    "reduce_scatter": RankContract("reduce_scatter", "x: float (rows, *rest)", "rows % ranks == 0 -- rows must be a multiple of "
                                   "the ranks", "-> out: =x (rows // ranks, *rest)")}


def all_reduce(x: Tensor, group: Any = None, symmetric: bool = False) -> Tensor:
    """The sum of x over all ranks, the same at all of them to the bit. All ranks call it.

    args:      x          bf16, fp16 or fp32, any shape and strides; shape and type the same at all ranks
               group      a process group, its name, or None for the default one
               symmetric  x is contiguous in the group's symmetric heap (`mimw.distributed.symmetric_empty`), the same tensor at all
                          ranks: peers read it where it is. Then it may be written again as soon as the call is over on its stream
    returns:   of x's shape, contiguous
    computed:  by `mimw.kernels.collectives`: sums in fp32 in the order of the ranks, rounded once
    order      of a group's calls: one stream at a time, the same at all ranks; in CUDA graphs, too, if a call of each form came
               before, which makes its slots
    gradients  of x: the sum of all ranks' gradients
    errors:    NotImplementedError for other types; NotSymmetric for a tensor that is not in the heap; ValueError from 2^31 - 2^16
               numbers on; RanksDisagree where shapes, types, `symmetric` or the offsets of symmetric tensors differ by rank, on
               GPUs found at the first call for each (two tensors that all ranks have given before, and then not the same one at
               all, are not distinguished); those of `mimw.distributed.World`
    """
    return ALL_REDUCE(x, name_of(group), symmetric)


def all_reduce_(x: Tensor, group: Any = None, symmetric: bool = False) -> Tensor:
    """`all_reduce` in the place of x, which is returned; x has to be contiguous, and while gradients are recorded no leaf that
    requires grad, nor a view of one (RuntimeError), and need no gradient (NotImplementedError)."""
    if x.requires_grad and torch.is_grad_enabled():
        refuse_leaves("all_reduce_", x=x)
        raise NotImplementedError("mimw::all_reduce_ has no derivative: call all_reduce, or this under torch.no_grad()")
    ALL_REDUCE_(x, name_of(group), symmetric)
    return x


def all_gather(x: Tensor, group: Any = None, symmetric: bool = False) -> Tensor:
    """x of all ranks, one behind the other along the first extent; arguments, order and errors as `all_reduce`.

    args:      x          (M, ..)
    returns:   (ranks M, ..), contiguous
    gradients  of x: `reduce_scatter` of the gradients
    """
    return ALL_GATHER(x, name_of(group), symmetric)


def reduce_scatter(x: Tensor, group: Any = None, symmetric: bool = False) -> Tensor:
    """This rank's part of the sum of x over all ranks; arguments, order and errors as `all_reduce`.

    args:      x          (M, ..), M a multiple of the number of ranks, or RuntimeError
    returns:   (M / ranks, ..), contiguous; rank r has the sum of the rows from r M / ranks on
    gradients  of x: `all_gather` of the gradients
    """
    return REDUCE_SCATTER(x, name_of(group), symmetric)


def _run(name: str, x: Tensor, group_name: str, symmetric: bool = False) -> Tensor:
    world = world_of(group_name)
    plans, key = _PLANS.of(world), (name, look(x), symmetric)
    return (plans[key] or plans.made(key, world, name, x, symmetric))(x)


def _run_(x: Tensor, group_name: str, symmetric: bool = False) -> None:
    _run("all_reduce_", x, group_name, symmetric)


def _place(world: World, x: Tensor) -> str:
    """Where a symmetric tensor lies: the same at all ranks if it is one tensor, which peers read there."""
    try:
        return f"symmetric, at offset {world.offset_of(x)}"
    except NotSymmetric:
        return "not in the symmetric heap"


def _same_everywhere(world: World, name: str, x: Tensor) -> None:
    """Have all ranks tell each other where x lies, once for each x: who reads a peer's x reads there."""
    known, key = world.kept.setdefault("symmetric tensors", set()), (x.data_ptr(), x.shape)
    if key not in known:
        agreed(world, name, x, _place(world, x))
        world.check_symmetric(x, "x")
        known.add(key)


def choice(collective: str, ranks: int, size: int, symmetric: bool, in_place: bool) -> tuple[library.Configuration, bool]:
    """(the form for parts of `size` bytes, whether it reads x where it is). Of symmetric tensors in one hop the sum has to lie
    elsewhere, in two it has to be symmetric as well: where that is not so, x is sent as any other tensor."""
    chosen = library.configuration(collective, ranks, size, symmetric)
    if chosen.form == "direct" and in_place:
        chosen = replace(chosen, form="direct_two_shot")
    elif chosen.form == "direct_two_shot" and not in_place:
        chosen = library.configuration(collective, ranks, size, False)
    return chosen, chosen.form.startswith("direct")


def _plan(world: World, name: str, x: Tensor, symmetric: bool) -> Callable[[Tensor], Tensor]:
    of, in_place = CONTRACTS[name].check(x=x, ranks=world.size), name.endswith("_")
    shape = x.shape if in_place else of.out.shape
    if not takes("collectives", world.size == 1 and ALONE):
        return (lambda x: x) if in_place else partial(torch.clone, memory_format=torch.contiguous_format)
    if x.is_cuda:
        agreed(world, name, x, *["symmetric"] * symmetric)
    if x.numel() == 0:
        return partial(_nothing, name, world, shape, symmetric)
    collective = name.rstrip("_")
    part = x.numel() // (world.size if collective == "reduce_scatter" else 1)
    chosen, where_it_is = choice(collective, world.size, part * x.element_size(), symmetric, in_place)

    CONTRACTS[name].demand(x.is_contiguous() or not symmetric,
                           lambda: f"x of strides {tuple(x.stride())} is symmetric and not contiguous")
    if not x.is_cuda:
        return partial(_simulated, name, world, symmetric, partial(_at_all_ranks, name, shape, where_it_is, chosen))

    def checked(x: Tensor) -> Tensor:
        if symmetric:
            _same_everywhere(world, name, x)
        return x if in_place else x.contiguous()

    given = checked(x)
    out = given if in_place else x.new_empty(shape)
    kernel, grid, args, meta = library.arguments(collective, given, out, world, where_it_is, chosen)
    launch = RankLaunch(world, given, kernel, grid, args, meta, [one for one in args[2:] if isinstance(one, Tensor)])

    def plan(x: Tensor) -> Tensor:
        given = checked(x)
        out = given if in_place else x.new_empty(shape)
        launch(given, out)
        return out

    return plan


def _simulated(name: str, world: Any, symmetric: bool, run: Callable, x: Tensor) -> Tensor:
    found = simulated(name, world, (x, ), run, (_place(world, x), ) * (symmetric and x.numel() > 0))
    if symmetric and x.numel():
        world.check_symmetric(x, "x")
    return x.copy_(found) if name.endswith("_") else found


def _nothing(name: str, world: Any, shape: list, symmetric: bool, x: Tensor) -> Tensor:
    """Of no elements; on the CPU, too, only if they have none at all ranks."""
    if not x.is_cuda:
        _simulated(name, world, symmetric, lambda ranks, xs: xs, x)
    return x if name.endswith("_") else x.new_empty(shape)


def _at_all_ranks(name: str, shape: list, where_it_is: bool, chosen: library.Configuration, ranks: mimw.World,
                  xs: list[Tensor]) -> list[Tensor]:
    """The operator at every rank of a simulated world."""
    x = ranks.each(xs, "x")
    if where_it_is:
        x = ranks.symmetric(xs[0].shape, xs[0].dtype, "x")
        for place, one in zip(tensors_of(x), xs):
            place.copy_(one)
    out = x if name.endswith("_") else ranks.each([one.new_empty(shape) for one in xs], "out")
    kernel, grid, args, meta = library.arguments(name.rstrip("_"), x, out, ranks, where_it_is, chosen)
    mimw.simulate(kernel, grid, *args, **meta)
    return tensors_of(out)


def _save(ctx, inputs, output) -> None:
    _, ctx.group_name, *_ = inputs


def _named(function: Callable, name: str) -> Callable:
    """A function of this module: who asks an operator's finds where it stands."""
    return lambda x, group_name, symmetric=False: function(name, x, group_name, symmetric)


def _gradient(name: str) -> Callable:
    return lambda ctx, gradient: (getattr(torch.ops.mimw, name)(gradient, ctx.group_name, False), None, None)


_PLANS = RankPlans(_plan)
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = (
    Operator(f"{name}(Tensor x, str group_name, bool symmetric=False) -> Tensor", _named(_run, name), CONTRACTS[name], _save,
             _gradient(other))
    for name, other in (("all_reduce", "all_reduce"), ("all_gather", "reduce_scatter"), ("reduce_scatter", "all_gather")))
ALL_REDUCE_ = Operator("all_reduce_(Tensor(a!) x, str group_name, bool symmetric=False) -> ()", _run_, CONTRACTS["all_reduce_"])
