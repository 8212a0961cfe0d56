"""The dialects `nvvm` and `gpu`: numbers of threads, barriers of all threads, and values from other threads of the warp.

Input: nothing, or numbers of a body. Output: ops of `mimw.ir`. For example, with 128 threads:

    nvvm.read_ptx_sreg_tid_x()      %lane = make_range 0 128
    nvvm.read_ptx_sreg_ctaid_x()    get_program_id 0
    nvvm.barrier0()                 barrier
    nvvm.shfl_sync(i32, mask, v, 1, 31, nvvm.ShflKind.bfly)     gather %v[lane ^ 1]

The threads are those of the body's index space; where the launch has fewer, each does the work of several.
"""

from __future__ import annotations

import enum

import triton.language.core as tl

from .arith import operands
from .dialect import DIALECTS, op
from .threads import I1, I32, INDEX
from .types import Type, is_integer
from .values import Number

_WARP = 32


def _place(body, axis: int) -> Number:
    return body.threads.coordinate(axis)


def _extent(body, axis: int) -> Number:
    return body.threads.constant(body.threads.extents[axis], I32)


def _block(body, axis: int) -> Number:
    return body.threads.value(tl.program_id(axis, _semantic=body.threads.semantic), I32)


def _blocks(body, axis: int) -> Number:
    return body.threads.value(tl.num_programs(axis, _semantic=body.threads.semantic), I32)


def _register(register: str, name: str, which, axis: int) -> None:
    """A special register under the names of the function and of the op class."""

    def read(body, res=None, range=None, results=None):
        res = results if res is None else res
        return body.threads.resized(which(body, axis), res if isinstance(res, Type) else I32)

    read.__doc__ = f"The special register %{register.replace('_', '.')}."
    op("nvvm", f"read_ptx_sreg_{register}", classes=(f"{name}Op", ))(read)


for _axis, _letter in enumerate("xyz"):
    _register(f"tid_{_letter}", f"ThreadId{_letter.upper()}", _place, _axis)
    _register(f"ntid_{_letter}", f"BlockDim{_letter.upper()}", _extent, _axis)
    _register(f"ctaid_{_letter}", f"BlockId{_letter.upper()}", _block, _axis)
    _register(f"nctaid_{_letter}", f"GridDim{_letter.upper()}", _blocks, _axis)
_register("laneid", "LaneId", lambda body, axis: _in_warp(body), 0)
_register("warpid", "WarpId", lambda body, axis: _warp(body), 0)
_register("warpsize", "WarpSize", lambda body, axis: body.threads.constant(_WARP, I32), 0)


def _in_warp(body) -> Number:
    return body.threads.op("and", [body.threads.lane, body.threads.constant(_WARP - 1, I32)], I32)


def _warp(body) -> Number:
    return body.threads.op("lshr", [body.threads.lane, body.threads.constant(5, I32)], I32)


class Dimension(enum.IntEnum):
    """An axis of the threads or blocks."""

    x, y, z = range(3)


def _along(name: str, which) -> None:
    def read(body, dimension, upper_bound=None, results=None):
        shown = getattr(dimension, "name", getattr(dimension, "value", dimension))
        shown = str(shown).strip('"').removeprefix("#gpu<dim ").removesuffix(">")
        if shown not in ("x", "y", "z"):
            body.fail(f"gpu.{name}: the dimension must be x, y or z, got {dimension!r}")
        return body.threads.resized(which(body, "xyz".index(shown)), INDEX)

    op("gpu", name)(read)


DIALECTS["gpu"].Dimension = Dimension
for _name, _which in {"thread_id": _place, "block_dim": _extent, "block_id": _block, "grid_dim": _blocks}.items():
    _along(_name, _which)


@op("gpu")
def lane_id(body, upper_bound=None):
    """The thread's number in its warp."""
    return body.threads.resized(_in_warp(body), INDEX)


# ---- barriers -----------------------------------------------------------------------------------------------------------


@op("nvvm")
def barrier0(body, **given):
    """Record a barrier of all threads; the writes of each before the barrier are visible to all behind it."""
    meet(body, "nvvm.barrier0")


@op("nvvm", "barrier", classes=("BarrierOp", ))
def nvvm_barrier(body, barrier_id=None, number_of_threads=None, **given):
    """The same as barrier0. Barriers with numbers, and of some of the threads, are words of the kernel
    (tlx.named_barrier_wait)."""
    if barrier_id is not None or number_of_threads is not None:
        body.fail("nvvm.barrier: in a raw body all threads synchronise, at barrier 0", "leave the number and the count out")
    meet(body, "nvvm.barrier")


@op("gpu", "barrier")
def gpu_barrier(body, **given):
    """The same as nvvm.barrier0."""
    meet(body, "gpu.barrier")


def meet(body, what: str) -> None:
    """A barrier of all threads. RawCodeError where only some of them come."""
    if body.widest in ("thread", "warp"):
        body.fail(f"{what} brings all threads of the block together, and the body's sync_scope is {body.widest!r}",
                  'declare @tle.hardware_constraint(sync_scope="block")')
    if body.threads.diverged:
        body.fail(f"{what} is reached by some threads only: those would wait for the others for ever.",
                  "move it out of the scf.if_, scf.for_ or scf.while_ whose condition or bounds depend on the thread")
    body.threads.semantic.debug_barrier()


@op("nvvm", "bar_warp_sync", classes=("SyncWarpOp", ))
def bar_warp_sync(body, mask=None):
    """Synchronise the threads of a warp. A body is done op by op for all threads, which is stronger: nothing is recorded."""


# ---- from other threads of the warp ---------------------------------------------------------------------------------------


class ShflKind(enum.IntEnum):
    """The thread of the warp from which the number comes."""

    bfly, up, down, idx = range(4)


DIALECTS["nvvm"].ShflKind = ShflKind


@op("nvvm", "shfl_sync", classes=("ShflOp", ))
def shfl_sync(body, res, thread_mask, val, offset, mask_and_clamp, kind, return_value_and_is_valid=None):
    """The number of another thread of the warp (PTX ISA, shfl.sync); its own, if there is no such thread."""
    if body.widest == "thread":
        body.fail("nvvm.shfl_sync asks other threads of the warp, and the body's sync_scope is 'thread'",
                  'declare @tle.hardware_constraint(sync_scope="warp")')
    name = getattr(kind, "name", getattr(kind, "value", kind))
    name = str(name).strip('"').removeprefix("#nvvm<shfl_kind ").removesuffix(">")
    if name not in ShflKind.__members__:
        body.fail(f"nvvm.shfl_sync: {kind!r} is no kind of shuffle; there are {', '.join(ShflKind.__members__)}")
    threads, found = body.threads, body.threads.number(val, res if isinstance(res, Type) else None)
    offset, clamp = (operands(body, "nvvm.shfl_sync", [_i32(body, one)], "integer")[0] for one in (offset, mask_and_clamp))
    source, valid = _source(body, name, offset, clamp)
    if found.lanes:
        found = threads.value(_from_lanes(threads, found, threads.spread(source)), found.type)
    return (found, valid) if return_value_and_is_valid else found


def _from_lanes(threads, value: Number, source: Number) -> tl.tensor:
    """The value that each thread's `source` in its warp has. A row for each warp, so that Triton shuffles within warps."""
    semantic, rows = threads.semantic, [max(1, threads.width // _WARP), min(threads.width, _WARP)]
    plain = semantic.cast(value.tensor, tl.int32) if value.type == I1 else value.tensor
    source = threads.op("and", [source, threads.constant(rows[1] - 1, I32)], I32)
    found = semantic.gather(semantic.reshape(plain, rows, False), semantic.reshape(source.tensor, rows, False), 1)
    found = semantic.reshape(found, [threads.width], False)
    return semantic.cast(found, tl.int1) if value.type == I1 else found


def _source(body, kind: str, offset: Number, clamp: Number) -> tuple[Number, Number]:
    """The number in the warp of the thread to read, and whether it is within bounds: the table of PTX."""
    threads = body.threads

    def of(name: str, a: Number, b: Number | int) -> Number:
        return threads.op(name, [a, threads.constant(b, I32) if isinstance(b, int) else b], I32)

    lane, offset = _in_warp(body), of("and", offset, 31)
    segment, bound = of("and", of("lshr", clamp, 8), 31), of("and", clamp, 31)
    outside = of("xor", segment, -1)
    lowest, last = of("and", lane, segment), of("or", of("and", lane, segment), of("and", bound, outside))
    if kind == "up":
        source = of("sub", lane, offset)
        valid = threads.compare("SGE", source, last)
    elif kind == "down":
        source = of("add", lane, offset)
        valid = threads.compare("SLE", source, last)
    elif kind == "bfly":
        source = of("xor", lane, offset)
        valid = threads.compare("SLE", source, last)
    else:
        source = of("or", lowest, of("and", offset, outside))
        valid = threads.compare("SLE", source, last)
    return threads.select(valid, source, lane), valid


def _i32(body, value) -> Number:
    number = body.threads.number(value, I32)
    return body.threads.resized(number, I32) if is_integer(number.type) else number


@op("gpu", "shuffle")
def shuffle(body, value, offset, width, mode):
    """(The number of another thread of the warp, whether there is such a thread); `width` threads are a group."""
    group = width if isinstance(width, int) else body.known(width)
    if group not in (1, 2, 4, 8, 16, 32):
        body.fail(f"gpu.shuffle: the width must be a constant power of two up to 32, got {width!r}")
    name = str(getattr(mode, "name", getattr(mode, "value", mode))).strip('"').removeprefix("#gpu<shuffle_mode ").removesuffix(">")
    kinds = {"xor": "bfly", "up": "up", "down": "down", "idx": "idx"}
    if name not in kinds:
        body.fail(f"gpu.shuffle: {mode!r} is no mode; there are {', '.join(kinds)}")
    clamp = (32 - group) << 8 | (0 if name == "up" else 31)
    return shfl_sync.record(body, [None, -1, value, offset, clamp, kinds[name]], {"return_value_and_is_valid": True})


@op("gpu")
def subgroup_size(body, upper_bound=None):
    """32."""
    return body.threads.constant(_WARP, INDEX)


@op("nvvm", "vote_ballot_sync", classes=("VoteBallotOp", ))
def ballot(body, mask, pred, res=None):
    """A bit for each thread of the warp: is its truth value true, and does it come?"""
    threads = body.threads
    flags = threads.spread(threads.number(pred, I1))
    flags = flags if threads.mask is None else threads.both(threads.mask, flags)
    bit = threads.op("shl", [threads.constant(1, I32), _in_warp(body)], I32)
    bits = threads.select(flags, bit, threads.constant(0, I32))
    for step in (16, 8, 4, 2, 1):
        other = shfl_sync.record(body, [I32, -1, bits, step, 31, ShflKind.bfly], {})
        bits = threads.op("or", [bits, other], I32)
    return bits

