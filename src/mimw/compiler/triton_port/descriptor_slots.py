"""Ops of Triton for descriptors in memory of our choice, for which Triton's builder has no method.

Input: a module with a stand-in for each op. Output: the module with the real ops (`place_descriptors`). The stand-ins:

    ttg.inline_asm "mimw.slots BYTES"                               a workspace for the slots
    ttg.inline_asm "mimw.fill RANK TYPE FILL SWIZZLE" %operands     tensormap_create, and the fence that makes it usable
    ttg.inline_asm "mimw.acquire" %slot                             tensormap_fenceproxy_acquire
    tt.make_tensor_descriptor %slot ... {mimw.view}                 reinterpret_tensor_descriptor

Triton 3.9 knows `ttg.global_scratch_alloc` of any size, `ttng.tensormap_create` at any address and
`ttng.reinterpret_tensor_descriptor`, but makes them only inside its passes. So lowering leaves a stand-in for each, and
`place_descriptors` writes the real op in its place in the text of the module.
"""

from __future__ import annotations

import re

from .differences import with_stand_ins
from .text import Rewrite, rewritten

SLOT_BYTES = 128
ACQUIRE = "mimw.acquire"

def slots_marker(count: int) -> str:
    """The stand-in for an allocation of `count` slots."""
    return f"mimw.slots {count * SLOT_BYTES}"


def fill_marker(rank: int, element: int, nan: bool, swizzle: int) -> str:
    """The stand-in for making a descriptor.

    args:      element, swizzle - as the tensor map encodes them (PTX ISA, tensormap.replace)
    operands:  slot, base, then `rank` extents of the box, `rank` of the tensor, `rank - 1` strides in bytes, `rank` element
               strides, each with the innermost dimension first
    """
    return f"mimw.fill {rank} {element} {int(nan)} {swizzle}"


def mark_view(builder, value) -> None:
    """Make a descriptor just built the stand-in for a view of its base pointer."""
    value.set_attr("mimw.view", builder.get_unit_attr())


def place_descriptors(module):
    """The module with the real op in place of each stand-in."""
    return rewritten(module, _REAL_OPS, with_stand_ins(module))


def _scratch(line: re.Match) -> str:
    name, size, type_, location = line.groups()
    return f"{name} = ttg.global_scratch_alloc {{alignment = 128 : i32, nbytes = {size} : i32}} : {type_}{location}"


def _fill(line: re.Match) -> str:
    indent, rank, element, nan, swizzle, operands, types, location = line.groups()
    return _create(indent, int(rank), (element, nan, swizzle), operands.split(", "), types, location)


def _acquire(line: re.Match) -> str:
    indent, slot, pointer, location = line.groups()
    return f"{indent}ttng.tensormap_fenceproxy_acquire {slot} : {pointer}{location}"


def _view(line: re.Match) -> str:
    name, slot, pointer, type_, location = line.groups()
    return f"{name} = ttng.reinterpret_tensor_descriptor {slot} : !tt.ptr{pointer} to !tt.tensordesc{type_}{location or ''}"


def _create(indent: str, rank: int, codes: tuple[str, ...], operands: list[str], types: str, location: str) -> str:
    slot, base, *rest = operands
    sizes = (rank, rank, rank - 1, rank)
    groups = [rest[sum(sizes[:i]):sum(sizes[:i + 1])] for i in range(len(sizes))]
    lists = ", ".join(f"[{', '.join(group)}]" for group in groups)
    element, nan, swizzle = codes
    attributes = (f"elem_type = {element} : i32, fill_mode = {nan} : i32, interleave_layout = 0 : i32, "
                  f"swizzle_mode = {swizzle} : i32")
    return (f"{indent}ttng.tensormap_create {slot}, {base}, {lists} {{{attributes}}} : ({types}) -> (){location}\n"
            f"{indent}ttng.tensormap_fenceproxy_acquire {slot} : {types.split(', ')[0]}{location}")


_REAL_OPS = (
    Rewrite(re.compile(r'(.*) = ttg\.inline_asm "mimw\.slots (\d+)"[^:]*: \(\) -> (!tt\.ptr<i8>)(.*)'), _scratch),
    Rewrite(re.compile(r'(\s*)ttg\.inline_asm "mimw\.fill (\d) (\d+) (\d) (\d)" \{[^}]*\} (.*) : \((.*)\) -> \(\)(.*)'), _fill),
    Rewrite(re.compile(r'(\s*)ttg\.inline_asm "mimw\.acquire" \{[^}]*\} (%\S+) : \((.*)\) -> \(\)(.*)'), _acquire),
    Rewrite(re.compile(r"(.*) = tt\.make_tensor_descriptor (%[^,]+), .*\{mimw\.view\} : (<\w+>), (<.*>)( loc\(.*)?"), _view),
)
