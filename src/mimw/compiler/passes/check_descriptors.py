"""Tensor descriptors made in a kernel whose extents or strides are known and cannot be, and copies that begin where none can.

Input: a program and its target. Output: nothing, or a `KernelError` with the line and the extent or stride, or an `IllegalCopy`
with the line and the coordinates. For example:

    tl.make_tensor_descriptor(p, [m, n], [n + 1, 1], ..)      refused for n = 64 and bf16: 130 bytes are no multiple of 16
    desc.store([-8, 0], tile)                                 refused: TMA writes no block whose corner is negative

On the GPU nothing checks them: a stride that is no multiple of 16 bytes makes TMA fault, or read elsewhere, and so does a last
offset. A number that is known only at run time is left to the simulator and the author. What never runs, as a branch that the
arguments rule out, is left alone.
"""

from __future__ import annotations

from ...errors import IllegalCopy, KernelError
from ...ir import Op, Program, Value
from ...ir.tensor_map import corner_problem, extent_problem, stride_problem
from ...target import Target
from ..analysis import Uses, constant_of, never_runs, uses_of


def check_descriptors(program: Program, target: Target) -> None:
    """Raise `KernelError` for the first descriptor with a constant that TMA cannot take, and for the first copy."""
    if target.has("tdm"):
        _check_padding(program)
    if not target.has("tma"):
        return
    uses = uses_of(program)
    for op in program.where(lambda row: {"base", "shape", "strides"} <= row.places.keys()):
        _check(uses, op, op.base, op.shape, op.strides)
    for op in program.where(lambda row: {"descriptor", "offsets"} <= row.places.keys()):
        corner = [constant_of(uses, offset) for offset in op.offsets]
        problem = corner_problem(corner, _shape(uses, op.descriptor), op.descriptor.type.element.bytes, writes=op.row.copy == "out")
        if problem and not never_runs(uses, op):
            raise IllegalCopy(f"{op.row.word or op.name}: {problem[0]}.", op.site, hint=f"{problem[1]}.")


def _check_padding(program: Program) -> None:
    """Refuse what Triton cannot make for AMD's data mover, which writes zeros."""
    for op in program.where(lambda row: "padding" in row.places):
        if "nan" in str(op.padding).lower():
            raise KernelError("this tensor descriptor pads with NaN, and the data mover of the chip pads with zeros.", op.site,
                              hint='leave padding_option at "zero", and put NaN where it is needed by tl.where.')


def _shape(uses: Uses, descriptor: Value) -> list[int | None] | None:
    """The extents of the tensor, as far as they are known, of a descriptor that the kernel makes."""
    made = uses.definition.get(descriptor)
    return [constant_of(uses, extent) for extent in made.shape] if made is not None and "shape" in made.row.places else None


def _check(uses: Uses, op: Op, base, shape, strides) -> None:
    size = base.type.pointee.bytes
    for dim, extent in enumerate(constant_of(uses, value) for value in shape):
        problem = extent_problem(dim, extent) if extent is not None else None
        if problem:
            _refuse(op, *problem)
    for dim, stride in enumerate(constant_of(uses, value) for value in strides[:-1]):
        problem = stride_problem(dim, stride, size) if stride is not None else None
        if problem:
            _refuse(op, *problem)


def _refuse(op: Op, facts: str, mend: str) -> None:
    raise KernelError(f"this tensor descriptor is invalid: {facts}.", op.site, hint=f"{mend}.")
