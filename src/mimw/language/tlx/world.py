"""Words that reach other GPUs: ranks, a peer's copy of a symmetric array, signals and barriers among ranks.

Input: the arguments of a kernel's call; `world` is a kernel parameter, the pointer to this rank's table. Output: ops of
`ir/ops/world.py` and of `ir/ops/memory.py`. For example:

    there = tlx.peer_pointer(x_ptr, peer, world)         %there = peer_pointer %x_ptr %world %peer
    tl.store(there + offsets, tile)                      a put: an ordinary store, over NVLink
    tlx.signal(tlx.peer_pointer(flag, peer, world))      %f = peer_pointer ..; atomic_rmw ADD %f 1, release, sys
    tlx.wait_signal(flag, 1)                             signal_wait %flag %c1 'ge' 'acquire' 'sys'

Nothing of TLX is published for several GPUs; the names are those of NVSHMEM and of torch's symmetric memory. A table is made by
`mimw.World` where GPUs are simulated. On the host, any allocation of symmetric memory can be described by one.
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import word
from ..described import described
from ..refuse import refuse

__all__ = ["peer_pointer", "signal", "wait_signal", "world_barrier", "world_rank", "world_size"]

_RANK, _SIZE = 0, 1     # what the table of a rank begins with
COMPARISONS = ("eq", "ne", "ge", "gt", "le", "lt")


@word
def world_rank(world, _semantic=None) -> tl.tensor:
    """The rank of this GPU, an i32 scalar.

    args:      world - the pointer to this rank's table, of int64
    errors:    TypeError for anything else
    example:   rank = tlx.world_rank(world)
    """
    return field("tlx.world_rank", world, _RANK, _semantic)


@word
def world_size(world, _semantic=None) -> tl.tensor:
    """The number of GPUs, an i32 scalar.

    args:      world - the pointer to this rank's table, of int64
    errors:    TypeError for anything else
    example:   ranks = tlx.world_size(world)
    """
    return field("tlx.world_size", world, _SIZE, _semantic)


@word
def peer_pointer(pointer, rank, world, _semantic=None) -> tl.tensor:
    """`pointer` into a symmetric array, as it is at `rank`: loads, stores, atomics and descriptors made of it go to that GPU.

    args:      pointer - one pointer or a tile of them, into a symmetric array of this rank; alignment and contiguity stay. Take the
                         peer's pointer of the array once and add offsets to that, rather than of each tile of pointers
               rank    - an int or an i32 scalar, 0 to the number of ranks - 1; this rank's own is legal
               world   - the pointer to this rank's table
    returns:   a pointer of the same type and shape
    orders:    nothing: write, then `signal`; the peer reads behind `wait_signal`
    errors:    TypeError for another pointer, rank or table; ValueError for a negative rank
    not:       checked at run time: a rank that there is not (the simulator refuses it)
    lowers to: two loads from the table and an addition; the accesses are ordinary ones, over NVLink
    example:   there = tlx.peer_pointer(x_ptr, (tlx.world_rank(world) + 1) % tlx.world_size(world), world)
    """
    name = "tlx.peer_pointer"
    checked_world(name, world)
    if not isinstance(pointer, tl.tensor) or not pointer.dtype.is_ptr() or pointer.dtype.address_space in ("shared", "cluster"):
        refuse(TypeError, f"{name}: `pointer` is a pointer into global memory, got {described(pointer)}")
    if isinstance(rank, bool) or not isinstance(rank, (int, tl.tensor)) or isinstance(rank, tl.tensor) and rank.type != tl.int32:
        refuse(TypeError, f"{name}: `rank` is an int or an i32 scalar, got {described(rank)}")
    if isinstance(rank, int) and rank < 0:
        refuse(ValueError, f"{name}: rank {rank} is negative")
    rank = _semantic.to_tensor(rank)
    handle = _semantic.builder.record("peer_pointer", pointer.handle, world.handle, rank.handle).results[0]
    return tl.tensor(handle, pointer.type)


@word
def signal(pointer, value=1, op: tl.constexpr = "add", sem: tl.constexpr = "release", scope: tl.constexpr = "sys",
           _semantic=None) -> None:
    """Signal the waiters at `pointer`, after all that this task did: add to the integer there, or set it. One thread does it.

    args:      pointer - to one integer of 32 or 64 bits, mostly `peer_pointer` of a symmetric array of signals
               value   - what is added or set, an int or an integer scalar
               op      - "add" or "set"
               sem     - "release"; "relaxed" orders nothing, unless fence("sys") stands before
               scope   - "sys"; "gpu" reaches no task on another GPU
    orders:    all that this task did, also stores to peers, and TMA stores once they have been waited for by
               async_descriptor_store_wait -> what a task does behind a wait_signal that has seen this
    errors:    TypeError for anything but a pointer to one such integer; ValueError for another op, sem or scope, and for an
               int that its type does not hold
    lowers to: a barrier of the task's threads and PTX red.release.sys.global.add or fence.release.sys and st.relaxed.sys, by one
               thread; on AMD Triton's atomics
    example:   tlx.signal(tlx.peer_pointer(pad, 0, world), 1)
    """
    name = "tlx.signal"
    _word_pointer(name, pointer)
    if op not in ("add", "set"):
        refuse(ValueError, f"{name}: op is {op!r}; it may be 'add' or 'set'")
    _scoped(name, sem, ("release", "relaxed"), scope)
    value = _value(name, value, pointer, _semantic)
    if op == "set":
        tl.atomic_store(pointer, value, sem=sem, scope=scope, _semantic=_semantic)
    else:
        tl.atomic_add(pointer, value, sem=sem, scope=scope, _semantic=_semantic)


@word
def wait_signal(pointer, value, compare: tl.constexpr = "ge", sem: tl.constexpr = "acquire", scope: tl.constexpr = "sys",
                _semantic=None) -> None:
    """Hold this task until the integer at `pointer` compares so with `value`.

    args:      pointer - to one integer of 32 or 64 bits of this rank's memory (a peer's is legal and slow)
               value   - what it is compared with, an int or an integer scalar
               compare - "ge": until the integer is at least `value`; or "eq", "ne", "gt", "le", "lt"; signed for signed types
               sem     - "acquire"; "relaxed" orders nothing, unless fence("sys") stands behind
               scope   - "sys"; "gpu" sees no signal from another GPU
    orders:    what was done before the `signal`s that made it so -> what this task does after
    errors:    TypeError for anything but a pointer to one such integer; ValueError for another comparison, sem or scope, and for an
               int that its type does not hold
    not:       a reset: count up and wait for "ge" of the round, or let the waiter reset the signal before it lets the sender go on
    lowers to: one thread looks by PTX ld.acquire.sys.global until it is so; then a barrier of the task's threads. On gfx942 and
               gfx950 each wave looks, by global_load .. sc0 sc1, and has its caches invalidated by buffer_inv sc0 sc1; on gfx1250
               by global_load .. scope:SCOPE_SYS and global_inv scope:SCOPE_SYS
    example:   tlx.wait_signal(pad, 1)
    """
    name = "tlx.wait_signal"
    _word_pointer(name, pointer)
    if compare not in COMPARISONS:
        refuse(ValueError, f"{name}: compare is {compare!r}; it may be one of {', '.join(map(repr, COMPARISONS))}")
    _scoped(name, sem, ("acquire", "relaxed"), scope)
    value = _value(name, value, pointer, _semantic)
    compare = f"u{compare}" if pointer.dtype.element_ty.is_int_unsigned() else compare
    _semantic.builder.record("signal_wait", pointer.handle, value.handle, compare, sem, scope)


@word
def world_barrier(world, _semantic=None) -> None:
    """Synchronise with the programs that have this program's id on all other GPUs.

    args:      world - the pointer to this rank's table
    orders:    all that any of these programs did before -> what they do after. TMA stores have to be waited for before.
    errors:    TypeError for another `world`
    not:       in two tasks of one program at a time; for more programs than the signal pads are made for. Programs that run at the
               same time must be the same ones on every GPU: a grid that fits is safe
    lowers to: one thread for each peer: PTX atom.cas.release.sys to the peer's signal pad, atom.cas.acquire.sys on this one
    example:   tlx.world_barrier(world)
    """
    checked_world("tlx.world_barrier", world)
    _semantic.builder.record("world_barrier", world.handle)


def field(name: str, world, index: int, semantic) -> tl.tensor:
    """One entry of the table, as i32."""
    checked_world(name, world)
    place = semantic.add(world, semantic.to_tensor(index), False) if index else world
    return tl.load(place, _semantic=semantic).to(tl.int32, _semantic=semantic)


def checked_world(name: str, world) -> None:
    """TypeError unless it is a pointer to one int64."""
    if not isinstance(world, tl.tensor) or world.type.is_block() or world.type != tl.pointer_type(tl.int64):
        refuse(TypeError, f"{name}: `world` is the pointer to this rank's table, of int64; got {described(world)}")


def _word_pointer(name: str, pointer) -> None:
    ok = isinstance(pointer, tl.tensor) and not pointer.type.is_block() and pointer.dtype.is_ptr()
    if not ok or not pointer.dtype.element_ty.is_int() or pointer.dtype.element_ty.primitive_bitwidth not in (32, 64):
        refuse(TypeError, f"{name}: `pointer` is a pointer to one integer of 32 or 64 bits, got "
                          f"{described(pointer)}")


def _scoped(name: str, sem: str, orders: tuple[str, ...], scope: str) -> None:
    if sem not in orders:
        refuse(ValueError, f"{name}: sem is {sem!r}; it may be {' or '.join(map(repr, orders))}")
    if scope not in ("gpu", "sys"):
        refuse(ValueError, f"{name}: scope is {scope!r}; it may be 'sys', or 'gpu' where no other GPU is meant")


def _value(name: str, value, pointer, semantic) -> tl.tensor:
    if isinstance(value, bool) or not (isinstance(value, int) or isinstance(value, tl.tensor) and not value.type.is_block()
                                       and value.dtype.is_int()):
        refuse(TypeError, f"{name}: `value` is an int or an integer scalar, got {described(value)}")
    word_type = pointer.dtype.element_ty
    if isinstance(value, int) and not word_type.get_int_min_value() <= value <= word_type.get_int_max_value():
        refuse(ValueError, f"{name}: {value} does not fit the signal, which is {word_type}",
               mend="make the array of signals int64" if word_type.get_int_min_value() < 0 <= value else "")
    return semantic.cast(semantic.to_tensor(value), word_type)
