"""Words about the matrix cores of AMD's chips and the registers that they work on.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/matrix_registers.py`, and products. For example:

    acc = tlx.amd_scheduled_mfma(a, b, acc, "persistent")        %acc2 = dot %a %b %acc registers="agpr"
    acc = tlx.amd_mfma_commit(acc)                               %acc3 = commit_products %acc2 boundary=True

Stock Triton has no ops for schedules of matrix instructions, so these words say which registers a tile is kept in, and where the
compiler's scheduler stops; the order in between is the compiler's. Nothing of it changes a number.
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ...ir import layouts as ir_layouts
from ..core import capability, word
from ..refuse import refuse
from .arguments import is_int
from .fixed_list import tuples

__all__ = [
    "amd_mfma_commit", "amd_register_handoff", "amd_register_resident", "amd_scheduled_mfma", "extract_slice",
    "require_amd_wmma_layout",
]

_CLASSES = ("agpr", "vgpr")
_CLASS_OF = {"persistent": "agpr", "transient": "vgpr"}
_MOST = 32      # registers of one group


def _tile(name: str, parameter: str, value) -> tl.tensor:
    if not isinstance(value, tl.tensor) or not value.type.is_block():
        refuse(KernelError, f"{name}: `{parameter}` must be a block tensor, got {value}")
    return value


def _check_class(name: str, parameter: str, given) -> None:
    if given not in _CLASSES:
        refuse(ValueError, f"{name}: {parameter} must be one of {_CLASSES}, got {given!r}")


def _kept(name: str, value, kind: str, group: int, semantic, **attrs) -> tl.tensor:
    _check_class(name, "register_class", kind)
    value = _tile(name, "value", value)
    if value.dtype.is_ptr() or value.dtype.primitive_bitwidth not in (16, 32):
        refuse(ValueError, f"{name} takes elements of 16 or 32 bits, got {value.dtype}")
    return tl.tensor(semantic.builder.record("keep_in_registers", value.handle, kind, group, **attrs).results[0], value.type)


@word
def amd_register_resident(value, register_class: tl.constexpr = "agpr", registers_per_group: tl.constexpr = 1,
                          _semantic=None) -> tl.tensor:
    """`value`, kept in registers of one kind from here on.

    args:      value               - block tensor of elements of 16 or 32 bits
               register_class      - "agpr", accumulation registers, or "vgpr", vector registers
               registers_per_group - 1, 2, 4, .. 32: so many of a lane's registers are taken together; all, if it has fewer
    not:       a promise: the register allocator may move the tile afterwards, as for any inline assembly. gfx1250 has vector
               registers only, NVIDIA's chips one kind: there it is `value` as it is
    errors:    ValueError for another kind, group or element width; KernelError for anything but a block tensor
    lowers to: tt.elementwise_inline_asm "" with the operand tied to the result (LLVM AMDGPU, constraints `a` and `v`)
    example:   acc = tlx.amd_register_resident(acc, "agpr", 4)
    """
    if not is_int(registers_per_group) or not 1 <= registers_per_group <= _MOST or registers_per_group & (registers_per_group - 1):
        refuse(ValueError, f"amd_register_resident: registers_per_group must be a power of two from 1 to {_MOST}, got "
                           f"{registers_per_group!r}")
    return _kept("amd_register_resident", value, register_class, registers_per_group, _semantic)


@word
def amd_register_handoff(value, register_class: tl.constexpr = "vgpr", _semantic=None) -> tl.tensor:
    """`value`, handed over at this place into registers of one kind: what made it is done by then.

    args:      as of `amd_register_resident`
    orders:    the hand-over keeps its place among other volatile assembly of the kernel
    errors:    ValueError for another kind or element width; KernelError for anything but a block tensor
    lowers to: as `amd_register_resident`, with side effects
    example:   acc = tlx.amd_register_handoff(acc)
    """
    return _kept("amd_register_handoff", value, register_class, 1, _semantic, fixed=True)


@word
def amd_scheduled_mfma(a, b, acc, accumulator_role: tl.constexpr, resident_operand: tl.constexpr = None,
                       accumulator_register_class: tl.constexpr = None, initialize: tl.constexpr = False,
                       _semantic=None) -> tl.tensor:
    """a (M, K) x b (K, N) + acc (M, N) on the matrix cores, with the sum in registers of one kind.

    args:      a, b, acc - block tensors as `tl.dot` takes them. Those in an `amd_mfma_layout`, or an operand layout of one, stay in
                           it; if none is, the product has the largest square instruction that fits, transposed
               accumulator_role - "persistent": the sum lives on, in accumulation registers; "transient": what follows
                                  takes it, from vector registers
               resident_operand - None, 0 or 1: the operand that the next products take again. Checked, and without effect: stock
                                  Triton has no op for it, and an operand stays in its registers until its last product anyway;
                                  `amd_register_resident` puts it into one kind of them
               accumulator_register_class - (opt) "agpr" or "vgpr", instead of what the role says
               initialize - `acc` only says where the sum lies, and is not added
    not:       a schedule: the compiler orders instructions as of `tl.dot`. On chips without MFMA it is `tl.dot`
    errors:    ValueError for other roles, operands and kinds; KernelError for anything but block tensors; what `tl.dot` says;
               LayoutConflict if no instruction multiplies such tiles in the layout that they have
    lowers to: tt.dot with amdg.cd_regclass
    example:   acc = tlx.amd_scheduled_mfma(a, b, acc, "persistent")
    """
    name = "amd_scheduled_mfma"
    if accumulator_role not in _CLASS_OF:
        refuse(ValueError, f"{name}: accumulator_role must be one of {tuple(_CLASS_OF)}, got {accumulator_role!r}")
    if resident_operand is not None and (not is_int(resident_operand) or resident_operand not in (0, 1)):
        refuse(ValueError, f"{name}: resident_operand must be None, 0 or 1, got {resident_operand!r}")
    if not isinstance(initialize, bool):
        refuse(ValueError, f"{name}: initialize must be a bool, got {initialize!r}")
    if accumulator_register_class is not None:
        _check_class(name, "accumulator_register_class", accumulator_register_class)
    a, b, acc = (_tile(name, parameter, value) for parameter, value in (("a", a), ("b", b), ("acc", acc)))
    if initialize:      # by an op on `acc`, so that the sum lies where `acc` does
        shape = [int(extent) for extent in acc.type.shape]
        acc = _semantic.where(_semantic.full(shape, 0, tl.int1), acc, _semantic.full(shape, 0, acc.dtype))
    product = _semantic.dot(a, b, acc, None, None, acc.dtype)
    kind = accumulator_register_class or _CLASS_OF[accumulator_role]
    _semantic.builder.maker(product.handle).set_attr("registers", kind)
    return product


@word
def amd_mfma_commit(value, preserve=None, _semantic=None):
    """`value`, a tile or a tuple of tiles, finished at this place: the compiler schedules no instruction across it.

    args:      value    - block tensor, or a tuple of them: the sums of products
               preserve - (opt) block tensor, or a tuple of them, that must stay whole across the boundary, such as operands
    returns:   `value`, with `preserve` the pair (value, preserve)
    not:       a wait: matrix instructions read and write registers in order
    errors:    KernelError for anything but block tensors
    lowers to: rocdl.sched.barrier 0, and empty volatile assembly through which each tile goes; elsewhere nothing
    example:   acc = tlx.amd_mfma_commit(acc)
    """
    boundary = True

    def through(parameter: str, one):
        nonlocal boundary
        if isinstance(one, (tuple, tl.tuple)):
            return tl.tuple([through(parameter, item) for item in one])
        one = _tile("amd_mfma_commit", parameter, one)
        handle = _semantic.builder.record("commit_products", one.handle, boundary).results[0]
        boundary = False
        return tl.tensor(handle, one.type)

    value = through("value", value)
    return value if preserve is None else tl.tuple([value, through("preserve", preserve)])


@word
def extract_slice(source, shape: tl.constexpr, offsets: tl.constexpr, _semantic=None) -> tl.tensor:
    """A box of a tile, out of the registers that hold it: on AMD no element leaves its lane.

    args:      source  - block tensor
               shape   - extents of the box, powers of two; offsets - where it begins; both of the rank of `source`
    not:       free, where the layout of `source` gives a lane elements of several boxes in one register: then the tile is
               converted first, unless its author has pinned it, which is refused. On NVIDIA's chips it is `tl.gather`, which moves
               elements between lanes
    errors:    AssertionError for another rank, or a box that is not inside the tile; KernelError for anything but a block tensor;
               LayoutConflict as said
    lowers to: amdg.extract_slice, which is no instruction; tt.gather elsewhere
    example:   upper = tlx.extract_slice(x, (64, 32), (0, 0))
    """
    source = _tile("extract_slice", "source", source)
    shape, offsets, extents = list(shape), list(offsets), [int(extent) for extent in source.type.shape]
    if not len(shape) == len(offsets) == len(extents):
        refuse(AssertionError, f"extract_slice: shape and offsets must have rank {len(extents)}")
    for size, start, extent in zip(shape, offsets, extents, strict=True):
        if not is_int(size) or not is_int(start) or size <= 0 or start < 0:
            refuse(AssertionError, f"extract_slice: extents must be positive and offsets not negative, got {size}, {start}")
        if start + size > extent:
            refuse(AssertionError, f"extract_slice: {size} elements from {start} are outside the extent {extent}")
        if size & (size - 1):
            refuse(AssertionError, f"extract_slice: extents must be powers of two, got {size}")
    if capability(_semantic) is None:
        handle = _semantic.builder.record("extract_slice", source.handle, tuple(shape), tuple(offsets)).results[0]
        return tl.tensor(handle, tl.block_type(source.dtype, shape))
    for axis, (size, start) in enumerate(zip(shape, offsets, strict=True)):
        if size < extents[axis]:
            source = _gathered(source, axis, size, start, _semantic)
    return source


def _gathered(source: tl.tensor, axis: int, size: int, start: int, semantic) -> tl.tensor:
    """`size` elements along one dimension from `start` on."""
    shape = [size if place == axis else int(extent) for place, extent in enumerate(source.type.shape)]
    numbers = semantic.add(semantic.arange(0, size), semantic.full([size], start, tl.int32), sanitize_overflow=False)
    for place in range(len(shape)):
        if place != axis:
            numbers = semantic.expand_dims(numbers, place)
    return semantic.gather(source, semantic.broadcast_impl_shape(numbers, shape), axis)


@word
def require_amd_wmma_layout(src, version: tl.constexpr = 3, transposed: tl.constexpr = True,
                            warp_bases: tl.constexpr = ((0, 2), (2, 0)), reg_bases: tl.constexpr = ((0, 1), (1, 0)),
                            instr_shape: tl.constexpr = (16, 16, 128), _semantic=None) -> tl.tensor:
    """`src` as an accumulator of the matrix cores of gfx1250, converted if it lies otherwise; pinned, as by `require_layout`.

    args:      src         - block tensor
               version     - 3, that of gfx1250
               transposed  - a lane holds neighbours along N instead of along M
               warp_bases  - for each bit of a warp's number where it steps, in instructions along M and N: along one of them
               reg_bases   - the same for the instructions of one warp that lie beside each other
               instr_shape - (16, 16, K); K does not change where the elements of an accumulator lie
    errors:    ValueError for numbers that no instruction has; KernelError for anything but a block tensor; TargetError on other
               chips; LayoutConflict for another number of warps
    lowers to: ttg.convert_layout to #ttg.amd_wmma
    example:   acc = tlx.require_amd_wmma_layout(acc)
    """
    name = "require_amd_wmma_layout"
    src = _tile(name, "src", src)
    if not is_int(version) or version != 3:
        refuse(ValueError, f"{name}: version must be 3, got {version!r}", mend="1 and 2 are of RDNA3 and RDNA4")
    warps, registers, instruction = tuples(warp_bases), tuples(reg_bases or ()), tuples(instr_shape)
    if len(instruction) != 3 or instruction[:2] != (16, 16):
        refuse(ValueError, f"{name}: instr_shape must be (16, 16, K), got {instruction}")
    for basis in (*warps, *registers):
        if not isinstance(basis, tuple) or len(basis) != 2 or sum(map(bool, basis)) != 1 or any(
                step < 0 or step & (step - 1) for step in basis):
            refuse(ValueError, f"{name}: a basis steps along M or along N by a power of two, got {basis}")
    layout = ir_layouts.AmdWmma(version, bool(transposed), warps, registers, instruction)
    return tl.tensor(_semantic.builder.record("require_layout", src.handle, layout, True).results[0], src.type)
