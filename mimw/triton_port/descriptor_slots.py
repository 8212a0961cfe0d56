"""Puts descriptors into slots that the kernel chose.

Triton 3.9 has the ops (`ttg.global_scratch_alloc` of any size, `ttng.tensormap_create` at any address,
`ttng.reinterpret_tensor_descriptor`) but no builder method for them. `tt.make_tensor_descriptor` has one, and `tma_lowering` turns
it into

    %s = ttg.global_scratch_alloc {nbytes = 128}
    ttng.tensormap_create %s, %base, ...
    ttng.tensormap_fenceproxy_acquire %s
    %d = ttng.reinterpret_tensor_descriptor %s

So lowering marks the base pointer with an inline assembly op that names the slot, and here, in the text of the module, `%s`
becomes that slot. Names in the text are only unique within an isolated region, so each use goes by the last definition above it.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia

SLOT_BYTES = 128
SLOTS, MAKE, VIEW = "mimw.slots", "mimw.make_in_slot", "mimw.view_slot"

_NAME = r"%[\w#]+"
_SLOTS = re.compile(rf'(\s*{_NAME} = )ttg.inline_asm "{SLOTS} (\d+)".*?(loc\(.*)?$')
_MARKER = re.compile(rf'\s*({_NAME}) = ttg.inline_asm "({MAKE}|{VIEW})" \{{[^}}]*\}} ({_NAME}), ({_NAME}) :')
_DEFINES = re.compile(rf"\s*({_NAME})(?::\d+)?(?:, {_NAME})* = ")
_SCRATCH = re.compile(rf"\s*({_NAME}) = ttg.global_scratch_alloc ")
_CREATE = re.compile(rf"\s*ttng.tensormap_create ({_NAME}), ({_NAME}),")
_USE = re.compile(rf"\s*(?:{_NAME} = )?ttng.(?:tensormap_fenceproxy_acquire|reinterpret_tensor_descriptor) ({_NAME}) ")


def place_descriptors(module):
    """The module with its descriptors made, those that are marked in their slots."""
    manager = mlir.pass_manager(module.context)
    nvidia.passes.ttnvgpuir.add_tma_lowering(manager)
    manager.run(module, "mimw.descriptors")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "module.ttgir")
        path.write_text(rewritten(str(module)))
        placed = mlir.parse_mlir_module(str(path), module.context)
    placed.context = module.context
    return placed


def rewritten(text: str) -> str:
    """The text of a module with every marker gone and its slot in place of the scratch."""
    lines: list[str] = []
    markers: dict[str, tuple[str, str, str]] = {}
    scratch: dict[str, int] = {}
    slot_of: dict[str, str] = {}
    for line in text.splitlines():
        if found := _DEFINES.match(line):
            markers.pop(found[1], None)
            slot_of.pop(found[1], None)
        if found := _SLOTS.match(line):
            start, size, location = found.groups()
            line = f"{start}ttg.global_scratch_alloc {{alignment = 128 : i32, nbytes = {size} : i32}} : !tt.ptr<i8> {location or ''}"
        elif found := _MARKER.match(line):
            markers[found[1]] = found.groups()[1:]
            continue
        elif found := _SCRATCH.match(line):
            scratch[found[1]] = len(lines)
        elif (found := _CREATE.match(line)) and found[2] in markers:
            kind, base, slot = markers[found[2]]
            slot_of[found[1]] = slot
            lines[scratch[found[1]]] = ""
            if kind == VIEW:
                continue
            line = line.replace(f"{found[1]}, {found[2]},", f"{slot}, {base},", 1)
        elif (found := _USE.match(line)) and found[1] in slot_of:
            line = line.replace(f" {found[1]} ", f" {slot_of[found[1]]} ", 1)
        lines.append(line)
    return "\n".join(lines) + "\n"
