"""All-reduce, all-gather and reduce-scatter among the GPUs of one host: bf16, fp16 and fp32, any length.

Input: x and out of this rank, and a world: `mimw.World`, whose arrays are `PerRank`s, or one of `mimw.distributed`. Output: a
launch, the same at all ranks:

    kernel, grid, args, meta = arguments("all_reduce", x, out, world)
    kernel[grid](*args, **meta)                             out is the sum of x over the ranks, in fp32, rounded once
    arguments("all_gather", x, out, world)                  out is x of rank 0, of rank 1, ..
    arguments("reduce_scatter", x, out, world, symmetric=True)      x lies in symmetric memory and is read there

Slots and counters are made at a world's first call of each form, by all ranks, and kept: zeros at first. Calls of one world follow
each other, in one stream at a time or in graphs; the same at all ranks.
"""

from __future__ import annotations

from math import prod
from weakref import WeakKeyDictionary

from ..contract import Contract
from ..contract.types import of as type_of
from .configs import PROGRAMS, Configuration, configuration, room_of
from .direct import gather_direct, reduce_direct
from .flagged import FlaggedForm, exchange_flagged
from .ring import SLOTS, RingForm, exchange_ring
from .two_shot import reduce_two_shot

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
MOST = (1 << 31) - (1 << 16)        # kernels count numbers with 32 bits, up to the end of the last chunk
CONTRACT = Contract(
    "x: float (*xs)", "out: =x (*outs)", f"collective in {COLLECTIVES} -- it may be one of {', '.join(COLLECTIVES)}",
    "prod(xs) * gathered == prod(outs) * scattered -- out has the numbers of x, of all_gather those of each rank, and x of "
    "reduce_scatter has numbers for each rank",
    f"max(prod(xs), prod(outs)) < {MOST} -- a call takes fewer than 2^31 - 2^16 numbers", empty="*")
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_KEPT: WeakKeyDictionary = WeakKeyDictionary()

__all__ = ["COLLECTIVES", "Configuration", "arguments", "configuration", "exchange_flagged", "exchange_ring", "gather_direct",
           "part_of", "reduce_direct", "reduce_two_shot"]


def arguments(collective: str, x, out, world, symmetric: bool = False, chosen: Configuration | None = None) -> tuple:
    """(kernel, grid, args, meta) of a launch or `mimw.simulate`, the same at every rank.

    args:      collective  one of COLLECTIVES
               x, out      contiguous tensors of one type, or `PerRank`s of them; of n numbers each, but out of all_gather has n of
                           each rank and x of reduce_scatter n for each. In all_reduce out may be x, by any form but "direct"
               world       whose ranks take part
               symmetric   x lies at the same place of every rank's symmetric heap; for the form "direct_two_shot" out as well
               chosen      the form and its numbers; by default the library's
    errors:    ValueError for other types, sizes or forms
    """
    size, kind = len(world) if hasattr(world, "__len__") else world.size, type_of(_one(x))
    scatter, adds = collective == "reduce_scatter", collective != "all_gather"
    CONTRACT.check(x=_one(x), out=_one(out), collective=collective, gathered=1 if adds else size, scattered=size if scatter else 1)
    numbers, part = _count(x), _count(out) if scatter else _count(x)
    bytes_ = part * _BYTES[kind]
    chosen = chosen or configuration(collective, size, bytes_, symmetric)
    if chosen.form.startswith("direct") and not symmetric:
        raise ValueError(f"the form {chosen.form!r} reads x where it is: it takes symmetric tensors")
    if chosen.form == "direct" and collective == "all_reduce" and _address(x) == _address(out):
        raise ValueError("all_reduce in one hop on symmetric tensors needs another tensor for the result: a peer may still read x")
    room = room_of(chosen.form, size) if chosen.form in PROGRAMS else chosen.chunk
    if chosen.chunk > room:
        raise ValueError(f"chunks of {chosen.chunk} bytes do not fit into the slots of the form {chosen.form!r}")
    chunk = max(chosen.chunk // _BYTES[kind], 1)
    warps = dict(num_warps=chosen.warps)
    common = dict(SIZE=size) | warps
    if chosen.form == "flagged":
        words = -(-bytes_ // 4)
        block = chosen.chunk // 4
        if words > block * PROGRAMS["flagged"]:
            raise ValueError(f"the form with flags takes {4 * block * PROGRAMS['flagged']} bytes in chunks of {4 * block}, got "
                             f"{bytes_}")
        slots, calls = _kept(world, "flagged", (2, PROGRAMS["flagged"], size, room // 4), "int64", "int32")
        whole = bytes_ % 4 == 0 and _address(x) % 4 == 0 and _address(out) % 4 == 0
        form = FlaggedForm(size, scatter, adds, whole, block, room // 4, PROGRAMS["flagged"])
        return exchange_flagged, (-(-words // block), ), (x, out, slots, calls, world, part), warps | dict(FORM=form)
    grid = (min(chosen.programs, -(-part // chunk)), )
    if chosen.form == "ring":
        rooms = _kept(world, "ring", (PROGRAMS["ring"], size, SLOTS.value, room), "int8", "int64", told=(size, ))
        form = RingForm(size, scatter, adds, chunk, room, chosen.lag)
        return exchange_ring, grid, (x, out, *rooms, world, part), warps | dict(FORM=form)
    each = part_of(numbers, size)
    if chosen.form == "two_shot" and collective == "all_reduce":
        rooms = _kept(world, "two_shot", (PROGRAMS["two_shot"], 2, size, room), "int8", "int64", told=(2, size))
        grid = (min(chosen.programs, -(-each // chunk)), )
        return reduce_two_shot, grid, (x, out, *rooms, world, numbers, each), common | dict(CHUNK=chunk, ROOM=room)
    if chosen.form == "direct" and not adds:
        return gather_direct, grid, (x, out, world, part), common | dict(CHUNK=chunk)
    if chosen.form == "direct" or chosen.form == "direct_two_shot" and collective == "all_reduce":
        two = chosen.form == "direct_two_shot"
        each = each if two else part
        grid = (min(chosen.programs, -(-each // chunk)), )
        return reduce_direct, grid, (x, out, world, numbers, each), common | dict(PARTS=scatter or two, SPREAD=two, CHUNK=chunk)
    raise ValueError(f"there is no form {chosen.form!r} of {collective}")


def part_of(numbers: int, ranks: int) -> int:
    """Numbers of a rank's part of an all-reduce in two hops: a multiple of 16, so that parts begin as aligned as the whole."""
    return -(-numbers // (16 * ranks)) * 16


def _kept(world, form: str, shape: tuple, dtype: str, counter: str, told: tuple | None = None) -> list:
    """Slots, signals if `told` says their shape for a program, and counters of a world's form."""
    kept, programs = getattr(world, "kept", None), PROGRAMS[form]
    kept = _KEPT.setdefault(world, {}) if kept is None else kept        # of a world of processes it goes when its group does
    wanted = {"slots": (shape, dtype), "signals": told and ((programs, *told), "int64"), "counters": ((programs, ), counter)}
    for name, one in wanted.items():        # each is kept at once: a heap that is full at the next one is so again
        if one is not None and (name, form) not in kept:
            kept[name, form] = world.symmetric(*one, f"{name} of {form}")
    return [kept[name, form] for name, one in wanted.items() if one is not None]


def _one(array):
    """What a rank has of an argument."""
    return array[0] if hasattr(array, "is_symmetric") else array


def _count(array) -> int:
    return prod(map(int, _one(array).shape))


def _address(array) -> int:
    """The lowest bits of every rank's address, together."""
    if not hasattr(array, "is_symmetric"):
        return array.data_ptr()
    found = 0
    for one in array:
        found |= one.ctypes.data if hasattr(one, "ctypes") else one.data_ptr()
    return found
