"""What all operators of several GPUs share: the group's world, memory that peers reach, launches, and the route of the CPU.

Input: a process group, or its name; tensors. Output: a world, workspaces, launches, simulated results. For example, an operator
`mimw::total(Tensor x, str group_name)` that adds x of all ranks:

    def total(x, group=None): return TOTAL(x, name_of(group))

    def _run(x, group_name):
        world = world_of(group_name)
        if not x.is_cuda:
            return simulated("total", world, (x, ), _at_all_ranks)
        ...     a plan of a RankLaunch

    def _at_all_ranks(ranks, xs):       xs[rank]: x of each rank
        y = ranks.symmetric(xs[0].shape, xs[0].dtype, "y")
        mimw.simulate(kernel, grid, ranks.each(xs, "x"), y, ranks)
        return tensors_of(y)            and simulated gives y of this rank

On the CPU every rank gets the inputs of all ranks by gloo, and rank 0 simulates the whole world for all; where ranks are on several
machines each does, to the same result.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

import mimw
from mimw.distributed import World
from mimw.distributed import world_of as world_there
from mimw.distributed.asked import AskedWorld
from mimw.errors import DistributedError, PeerLate, PeerLost, RanksDisagree

from ..chips import asked
from ..launching import Launch, note_simulation, programs
from ..log import shown
from ..plans import Plans
from ..stand_in import rank_stand_in

FREE_FOR_COPIES = 16        # multiprocessors of a GPU that ranks share


def world_of(group: Any = None) -> World:
    """The world of a group, as `mimw.distributed.world_of`; of a call that is to be explained, `as_asked`."""
    return as_asked(world_there(group))


def as_asked(world: World) -> World:
    """The world, or one in its place for a call that is to be explained, which makes no memory and asks no other rank."""
    call = None if torch.compiler.is_compiling() else asked()
    return world if call is None else vars(call).setdefault(world.name, AskedWorld(
        world, rank_stand_in, lambda name, x: call.steps.append(f"{name} of {shown((x, ))}")))


def name_of(group: Any = None) -> str:
    """The name of a group, as an operator's `group_name`: of a process group, a name, or the default group; a constant under
    torch.compile. NoProcessGroup without one."""
    return world_of(group).name


name_of._dynamo_marked_constant = True      # torch.compiler.assume_constant_result, which would load the compiler for it


def workspace(world: World, name: str, shape: int | Sequence[int], dtype: torch.dtype) -> Tensor:
    """Symmetric memory of an operator, kept for each world, name, shape and type: zeros at first, then what the last launch left.
    The first call for each is made by all ranks together, outside of CUDA graphs; errors as `World.symmetric`."""
    kept = world.kept.setdefault("workspaces", {})
    shape = (shape, ) if isinstance(shape, int) else tuple(shape)
    found = kept.get((name, shape, dtype))
    if found is None:
        found = kept[name, shape, dtype] = world.symmetric(shape, dtype, name)
    return found


def programs_beside_copies(world: World, on: Tensor) -> int:
    """`programs` of a launch that waits for copies. Between GPUs copy engines make them; between ranks of one GPU the driver
    launches a kernel, for which programs that all wait would leave no room."""
    return programs(on) - (FREE_FOR_COPIES if world.shares_gpus else 0)


def agreed(world: World, name: str, *told: Any) -> bool:
    """Have all ranks tell each other what a call looks like, once for each look: launches of calls that differ would wait for
    ever, or add up what does not belong together. Asked where a call's plan is made, so that one more call like it costs nothing.

    args:      name    of the operator, for messages
               told    what has to be the same at all ranks: tensors, whose shapes and types count, and plain data
    returns:   whether this is the group's first such call, which is the same at all ranks
    errors:    RanksDisagree, at all ranks; PeerLate at a rank whose call is new where the others' is not: their launches wait for
               it, and end as docs/DISTRIBUTED.md says
    """
    known = world.kept.setdefault("agreed", set())
    text = ", ".join(f"{_type(one)}{list(one.shape)}" if isinstance(one, Tensor) else str(one) for one in told)
    if (name, text) in known:
        return False
    world.rendezvous.agree(f"the inputs of {name}", text)
    known.add((name, text))
    return True


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class RankPlans:
    """`Plans(make)` for each world, kept with it: plans hold its memory, and their launches its table. For example:

        _PLANS = RankPlans(_plan)
        plans = _PLANS.of(world)
        plan = plans[key] or plans.made(key, world, x)
    """

    def __init__(self, make: Callable[..., Any]):
        self.make = make

    def of(self, world: World) -> Plans:
        found = world.kept.get(self)
        if found is None:
            found = world.kept[self] = Plans(self.make)
        return found


class RankLaunch:
    """A `Launch` of this rank, some of whose arrays stay: the world's table and symmetric memory.

    args:      world   of the launch; in `args`, it stands for its table
               on, kernel, grid, args, meta   as `Launch`
               kept    those tensors of `args` that stay, as the world does
    returns:   of the call `launch(*tensors)`: nothing. One tensor for each other tensor and descriptor among `args`, in that order
    errors:    RuntimeError where `on` lies on another GPU than the world's heap
    """

    def __init__(self, world: World, on: Tensor, kernel, grid: tuple[int, ...], args: tuple, meta: dict,
                 kept: Sequence[Tensor] = ()):
        if on.is_cuda and on.get_device() != world.get_device():
            raise RuntimeError(f"{kernel.__name__}: the tensors are on cuda:{on.get_device()}, and the memory of group "
                               f"{world.name!r} is on {world.device}, which was the current device when its world was made")
        args = tuple(world.table if value is world else value for value in args)
        stay = (world.table, *kept)
        arrays = [value for value in args if isinstance(value, (Tensor, mimw.TensorDescriptor))]
        self._arrays = [value if any(value is one for one in stay) else None for value in arrays]
        self._launch, self._world, self._name = Launch(on, kernel, grid, args, meta), world, kernel.__name__

    def __call__(self, *tensors: Tensor) -> None:
        given = iter(tensors)
        self._world.launched(self._name)        # refuses where a peer is lost
        self._launch(*[next(given) if one is None else one for one in self._arrays])

    def load(self, *tensors: Tensor) -> None:
        """`Launch.load`, of such tensors as a call gets."""
        given = iter(tensors)
        self._launch.load(*[next(given) if one is None else one for one in self._arrays])


def simulated(name: str, group: World | Any, inputs: Sequence[Tensor | None], run: Callable[..., Sequence[Any]], like: Any = (),
              ragged: bool = False) -> Any:
    """This rank's part of an operator on CPU tensors: all ranks' inputs by gloo, then `run` of the whole world, simulated.

    args:      name    of the operator, for messages
               group   the world, or what `world_of` takes
               inputs  this rank's tensors; None stays None
               run     `run(ranks, *gathered)`: a `mimw.World`, then for each input a list with the tensor of each rank; gives a
                       sequence with the result of each rank: a tensor, a tuple of tensors, whatever the operator returns. Called at
                       rank 0, at the others too if that fails, so that each raises what it found; at all ranks if they are on
                       several machines, where nobody sees that a process has ended
               like    what else has to be the same at all ranks, plain data: numbers that are no tensors
               ragged  whether shapes may differ by rank; types may not
    returns:   `run(...)[rank]`
    errors:    RanksDisagree, at all ranks, where shapes, types or `like` differ; PeerLate and PeerLost for ranks that do not come
    """
    world = world_of(group)
    note_simulation()
    inputs = [None if one is None else one.detach().cpu().contiguous() for one in inputs]
    looks = [None if one is None else [_type(one), list(one.shape)] for one in inputs]
    said = world.rendezvous.heard(f"{name} on CPU tensors", [looks, repr(like)])
    _check_alike(world, name, said, ragged)
    gathered = _gathered(world, name, inputs, [looks for looks, _ in said])

    def at_all_ranks() -> Sequence[Any]:
        return run(mimw.World(world.size), *gathered)

    if world.size > 1 and world.peers.on_this_machine():
        mine = world.rendezvous.from_first(f"{name}, simulated", lambda: list(map(_bytes, at_all_ranks())))
        if mine is not None:
            return torch.load(io.BytesIO(mine), weights_only=True)
    return at_all_ranks()[world.rank]


def _bytes(result: Any) -> bytes:
    torch.save(_alone(result), saved := io.BytesIO())
    return saved.getvalue()


def _alone(result: Any) -> Any:
    """Tensors with their own elements, without all the others that they are views of."""
    if isinstance(result, (tuple, list)):
        return type(result)(map(_alone, result))
    return result.detach().clone() if isinstance(result, Tensor) else result


def tensors_of(arrays: Sequence[np.ndarray | Tensor]) -> list[Tensor]:
    """Arrays of a simulated world, as torch tensors of the same memory: one for each rank."""
    return [one if isinstance(one, Tensor) else _tensor(one) for one in arrays]


def _tensor(array: np.ndarray) -> Tensor:
    dtype = getattr(torch, array.dtype.name)
    return torch.from_numpy(array.reshape(-1).view(np.uint8)).view(dtype).view(array.shape)


def _check_alike(world: World, name: str, said: list, ragged: bool) -> None:
    def compared(looks):
        return [None if one is None else one[0] if ragged else one for one in looks]

    def shown(looks, like):
        told = ", ".join("None" if one is None else f"{one[0]}{one[1]}" for one in looks)
        return told if like == "()" else f"{told} with {like}"

    if any((compared(looks), like) != (compared(said[0][0]), said[0][1]) for looks, like in said):
        raise world.rendezvous.difference(f"the ranks disagree on the inputs of {name}", [shown(*one) for one in said])


def _gathered(world: World, name: str, inputs: list, looks: list) -> list[list[Tensor | None] | None]:
    """For each input the tensors of all ranks: all inputs of a rank travel as one array of bytes, as long as the longest."""
    mine = torch.cat([torch.empty(0, dtype=torch.uint8),
                      *(one.reshape(-1).view(torch.uint8) for one in inputs if one is not None)])
    everyone = [mine] if world.size == 1 else _bytes_of_all(world, name, mine, max(map(_size, looks)))
    found: list = [[] for _ in inputs]
    for rank, flat in enumerate(everyone):
        at = 0
        for number, look in enumerate(looks[rank]):
            if look is None:
                found[number].append(None)
                continue
            size = _size([look])
            found[number].append(flat[at:at + size].clone().view(getattr(torch, look[0])).view(look[1]))
            at += size
    return found


def _size(looks: list) -> int:
    return sum(getattr(torch, look[0]).itemsize * int(np.prod(look[1], dtype=np.int64)) for look in looks if look is not None)


def _bytes_of_all(world: World, name: str, mine: Tensor, size: int) -> list[Tensor]:
    """By gloo, whose own errors name nobody."""
    padded = torch.zeros(size, dtype=torch.uint8)
    padded[:mine.numel()] = mine
    everyone = [torch.empty_like(padded) for _ in range(world.size)]
    try:
        dist.all_gather(everyone, padded, group=world.group)
    except RuntimeError as error:
        ended = world.peers.ended_soon()
        if ended:
            told = "; ".join(f"rank {rank}: {how}" for rank, how in ended.items())
            raise PeerLost(f"{name}: the inputs of all ranks do not arrive: {told}", ranks=ended,
                           hint="find out why that process ended, then start all ranks again") from error
        if "imed out" in str(error):
            raise PeerLate(f"{name}: the inputs of all ranks did not arrive in time at rank {world.rank}: {error}",
                           hint="find out which rank is late, or allow more: mimw.distributed.init(timeout=seconds)") from error
        raise DistributedError(f"{name} on CPU tensors: group {world.name!r} gathers none: {error}",
                               hint='the group needs gloo: init(backend="cpu:gloo,cuda:nccl")') from error
    return everyone


__all__ = ["RankLaunch", "RankPlans", "RanksDisagree", "World", "agreed", "name_of", "programs_beside_copies", "simulated",
           "tensors_of", "workspace", "world_of"]
