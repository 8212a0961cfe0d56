"""Words on the memory of all GPUs at once: multimem instructions, which the switch between GPUs carries out.

Input: the arguments of a kernel's call; a pointer that `multicast_pointer` has made of one into a symmetric array. Output: ops of
`ir/ops/multimem.py`. For example, an all-reduce of the elements that this rank is responsible for:

    all_of = tlx.multicast_pointer(x_ptr, world) + offsets      %m = multicast_pointer %x %world
    total = tlx.multimem_load_reduce(all_of)                    one load gives the sum over all ranks
    tlx.multimem_store(all_of, total)                           one store writes it at all ranks

Only GPUs on a switch that does it (NVLink with NVLS) have such addresses. Elsewhere the table has 0 for them, and a kernel that
asks is refused (`World(multicast=True)` simulates one). Names as PTX has them; nothing of TLX is published for it.
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import word
from ..described import described
from ..refuse import refuse
from .world import checked_world

__all__ = ["multicast_pointer", "multimem_load_reduce", "multimem_reduce", "multimem_store"]

_WIDEST = 16    # bytes of an access: PTX ISA, multimem with .v4 of 32 bits
_FLOATS = {"fp16": ("add", "min", "max"), "bf16": ("add", "min", "max"), "fp32": ("add", ), "fp64": ("add", )}
_INTEGERS = ("add", "min", "max", "and", "or", "xor")


@word
def multicast_pointer(pointer, world, _semantic=None) -> tl.tensor:
    """`pointer` into a symmetric array, as the one of all ranks at once: for multimem functions only.

    args:      pointer - one pointer or a tile of them, into a symmetric array of this rank
               world   - the pointer to this rank's table
    returns:   pointers of the same type and shape; an ordinary access through them is undefined (the simulator refuses it)
    errors:    TypeError for another pointer or table; on a world without multicast the simulator's error, and a trap on a GPU
    lowers to: two loads from the table and an addition
    example:   everywhere = tlx.multicast_pointer(x_ptr, world)
    """
    name = "tlx.multicast_pointer"
    checked_world(name, world)
    _check_pointer(name, pointer)
    return tl.tensor(_semantic.builder.record("multicast_pointer", pointer.handle, world.handle).results[0], pointer.type)


@word
def multimem_load_reduce(pointer, mask=None, op: tl.constexpr = "add", sem: tl.constexpr = "relaxed",
                         vector: tl.constexpr = None, _semantic=None) -> tl.tensor:
    """The elements of all ranks at `pointer`, reduced over the ranks.

    args:      pointer - a tile of multicast pointers. Neighbours along the last axis go in one access, `vector` of them: they must
                         lie one after the other, the first at a multiple of their bytes (checked by the simulator)
               mask    - (opt) which are read, neighbours of one access together; the others are 0
               op      - "add"; of integers, fp16 and bf16 also "min", "max"; of integers "and", "or", "xor"
               sem     - "relaxed", or "acquire": then a barrier of the task's threads follows
               vector  - (opt) neighbours in one access, a power of two; by default 16 bytes of floats, one integer or fp64
    returns:   a tile of the elements' type. Sums of fp16 and bf16 are accumulated in fp32; in which order, the switch decides: not
               the same bits as a sum by the ranks
    orders:    as that many atomic loads at scope sys: what was written before needs a signal or a barrier among the ranks
    errors:    TypeError for anything but a tile of pointers to numbers; ValueError for another op, sem or vector
    lowers to: PTX multimem.ld_reduce.{relaxed,acquire}.sys.global
    example:   total = tlx.multimem_load_reduce(tlx.multicast_pointer(x_ptr, world) + at)
    """
    name = "tlx.multimem_load_reduce"
    element = _check(name, pointer, op, sem, ("relaxed", "acquire"))
    vector, shape = _vector(name, element, pointer, vector), pointer.type.shape
    flat, mask = (None if one is None else _flat(one, _semantic) for one in (pointer, _mask(name, mask, pointer, _semantic)))
    handle = _semantic.builder.record("multimem_load_reduce", flat.handle, mask and mask.handle, _signed(op, element), sem,
                                      vector).results[0]
    return _semantic.reshape(tl.tensor(handle, tl.block_type(element, [flat.type.shape[0]])), list(shape), False)


@word
def multimem_store(pointer, value, mask=None, sem: tl.constexpr = "relaxed", vector: tl.constexpr = None, _semantic=None) -> None:
    """Write `value` at all ranks.

    args:      pointer - a tile of multicast pointers, neighbours as of `multimem_load_reduce`; or one
               value   - a tile of that shape, or one number
               mask    - (opt) which are written, neighbours of one access together
               sem     - "relaxed", or "release": all that this task did before is visible to a reader that acquires it
               vector  - (opt) neighbours in one access; by default 16 bytes of them, as far as there are so many
    orders:    as that many atomic stores at scope sys
    errors:    TypeError for anything but pointers to numbers of 1 to 8 bytes; ValueError for another sem or vector
    lowers to: PTX multimem.st.{relaxed,release}.sys.global, each element by one thread
    example:   tlx.multimem_store(tlx.multicast_pointer(x_ptr, world) + at, x)
    """
    name = "tlx.multimem_store"
    element = _check(name, pointer, None, sem, ("relaxed", "release"))
    _record("multimem_store", name, pointer, value, mask, (sem, ), element, vector, _semantic)


@word
def multimem_reduce(pointer, value, mask=None, op: tl.constexpr = "add", sem: tl.constexpr = "relaxed", vector: tl.constexpr = None,
                    _semantic=None) -> None:
    """Change the elements at all ranks by `value`, atomically at each. Of one pointer it is a signal to all ranks at once.

    args:      as of `multimem_store`; `op` as of `multimem_load_reduce`
               sem     - "relaxed", or "release": all that this task did before is visible to a reader that acquires it
    orders:    as that many atomics at scope sys
    errors:    TypeError for anything but pointers to numbers that the switch adds; ValueError for another op, sem or vector
    lowers to: PTX multimem.red.{relaxed,release}.sys.global, each element by one thread
    example:   tlx.multimem_reduce(tlx.multicast_pointer(pad, world), 1)
    """
    name = "tlx.multimem_reduce"
    element = _check(name, pointer, op, sem, ("relaxed", "release"))
    _record("multimem_reduce", name, pointer, value, mask, (_signed(op, element), sem), element, vector, _semantic)


def _record(op: str, name: str, pointer, value, mask, rest: tuple, element, vector, semantic) -> None:
    if not pointer.type.is_block():
        pointer = semantic.splat(pointer, [1])
    value = semantic.cast(semantic.to_tensor(value), element)
    value = semantic.broadcast_impl_shape(value, list(pointer.type.shape))
    vector = _vector(name, element, pointer, vector)
    flat, value, mask = (None if one is None else _flat(one, semantic)
                         for one in (pointer, value, _mask(name, mask, pointer, semantic)))
    semantic.builder.record(op, flat.handle, value.handle, mask and mask.handle, *rest, vector)


def _check_pointer(name: str, pointer) -> None:
    if not isinstance(pointer, tl.tensor) or not pointer.dtype.is_ptr() or pointer.dtype.address_space in ("shared", "cluster"):
        refuse(TypeError, f"{name}: `pointer` is a pointer into global memory, got {described(pointer)}")


def _check(name: str, pointer, op: str | None, sem: str, sems: tuple[str, ...]) -> tl.dtype:
    """The type of the elements."""
    _check_pointer(name, pointer)
    element = pointer.dtype.element_ty
    if not (element.is_floating() or element.is_int()) or element.primitive_bitwidth % 8 or name == "tlx.multimem_load_reduce" \
            and not pointer.type.is_block():
        refuse(TypeError, f"{name}: `pointer` is a tile of pointers to numbers, got {pointer.type}")
    if op is not None:
        known = _INTEGERS if element.is_int() and element.primitive_bitwidth >= 32 else _FLOATS.get(element.name, ())
        if not known:
            refuse(TypeError, f"{name}: `pointer` leads to {element}, of which the switch has no sums")
        if op not in known:
            refuse(ValueError, f"{name}: op is {op!r}; of {element} it may be {', '.join(map(repr, known))}")
    if sem not in sems:
        refuse(ValueError, f"{name}: sem is {sem!r}; it may be {' or '.join(map(repr, sems))}")
    return element


def _vector(name: str, element: tl.dtype, pointer, vector) -> int:
    """Neighbours in one access."""
    size, extent = element.primitive_bitwidth // 8, int(pointer.type.shape[-1])
    alone = name != "tlx.multimem_store" and (element.is_int() or size == 8) or size == 8
    most = 1 if alone else _WIDEST // size
    if vector is None:
        vector = min(most, extent & -extent)
    least = 1 if size >= 4 else 4 // size
    if isinstance(vector, bool) or not isinstance(vector, int) or vector & (vector - 1) or not least <= vector <= most:
        refuse(ValueError, f"{name}: {vector} neighbours of {element} in one access; it may be a power of two from {least} to "
                           f"{most}")
    if extent % vector:
        refuse(ValueError, f"{name}: {vector} neighbours in one access do not divide rows of {extent}")
    return vector


def _mask(name: str, mask, pointer, semantic) -> tl.tensor | None:
    if mask is None:
        return None
    mask = semantic.to_tensor(mask)
    if mask.dtype != tl.int1:
        refuse(TypeError, f"{name}: `mask` is a tile of booleans, got {mask.type}")
    return semantic.broadcast_impl_shape(mask, list(pointer.type.shape))


def _flat(tile: tl.tensor, semantic) -> tl.tensor:
    size = 1
    for extent in tile.type.shape:
        size *= int(extent)
    return tile if len(tile.type.shape) == 1 else semantic.reshape(tile, [size], False)


def _signed(op: str, element: tl.dtype) -> str:
    """The op as the IR names it, which knows no signs: "umin" of words without one."""
    return f"u{op}" if op in ("min", "max") and element.is_int_unsigned() else op
