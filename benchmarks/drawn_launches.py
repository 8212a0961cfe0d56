"""Random ordinary programs at sizes that fill a GPU: those of the fuzz family `ordinary`, whose own launches have a few tiny tiles.

    program = scaled(drawn(7)[0], tiles=528, trips=32)      the same kernel over 528 tiles, 32 trips of its loops
    launch = launch_of(program)
    launch.kernel[launch.grid](*launch.args, **launch.meta)

Input: a drawn program (tests/fuzz/ordinary/draw.py). Output: its launch with tensors, on the GPU if there is one: whole numbers of
small size, drawn by its seed. What masks cut off, gaps between rows and the order of arguments stay as they were drawn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import torch

import mimw
from mimw.compiler.triton_port.runtime import gpu_is_active
from tests.fuzz.ordinary.arrays import Array
from tests.fuzz.ordinary.draw import ENTRIES, Ordinary
from tests.fuzz.ordinary.judge import kernel_of

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp8e4nv": torch.float8_e4m3fn, "i8": torch.int8,
          "i32": torch.int32}
SLACK = 1024    # elements of a vector behind those that the loops come to: rows of a tile, columns of another


@dataclass
class DrawnLaunch:
    """A kernel, its grid, arguments and constants, and the tensors among its arguments, each once."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple
    meta: dict[str, int]
    tensors: list[torch.Tensor]


def scaled(program: Ordinary, tiles: int, trips: int, programs: int) -> Ordinary:
    """The program over about so many tiles, with so many trips along K. One whose programs take tiles in turn has `programs` of
    them. Arrays that were one lie apart: several programs would write what others read."""
    if not 1 <= trips <= ENTRIES:
        raise ValueError(f"{trips} trips: a table has {ENTRIES} entries, one for each trip")
    rows, cols = program.constants["R"], program.constants["C"]
    tiles_m = max(1, round((tiles * cols / rows) ** 0.5))
    tiles_n = max(1, round(tiles / tiles_m))
    cut = {axis: program.extents[axis] - program.sizes[axis] for axis in ("M", "N")}
    cut["K"] = -program.sizes["K"] % cols
    extents = {"M": tiles_m * rows, "N": tiles_n * cols, "K": trips * cols, "T": tiles_m * tiles_n * rows}
    sizes = dict(program.sizes) | {"T": extents["T"]} | {axis: extents[axis] - cut[axis] for axis in cut}
    grid: tuple[int, ...] = (tiles_m, tiles_n) if len(program.grid) == 2 else (tiles_m * tiles_n, )
    if "tiles" in sizes:
        sizes["tiles"], grid = tiles_m * tiles_n, (min(programs, tiles_m * tiles_n), )
    if "heads" in sizes:
        sizes["heads"] = max(1, sizes["heads"])
    return replace(program, extents=extents, sizes=sizes, grid=grid, alias=None)


def launch_of(program: Ordinary) -> DrawnLaunch:
    """The launch of a program whose numbers are whole; on a GPU without the stages that a loop asks for, with which stock Triton
    loads what a trip updates before the trip in front has stored it."""
    device = "cuda" if gpu_is_active() else "cpu"
    torch.manual_seed(program.seed)
    lengths, made, given = {**program.extents, **program.constants}, {}, []
    for array in program.arrays:
        rows, cols = (lengths[axis] for axis in array.in_memory(array.axes))
        made[array.name] = base = _random((rows, cols + array.gap), DTYPES[array.element], device)
        given += [_described(program, array, base)] if array.mode == "host" else [base, base.shape[1]]
    for name in program.vectors:
        given.append(_vector(program, name, made, device))
    source = re.sub(r", num_stages=\d+\):", "):", program.source)
    tensors = [*made.values(), *(value for value in given if isinstance(value, torch.Tensor))]
    return DrawnLaunch(kernel_of(source, f"drawn_{program.seed}"), program.grid, (*given, *program.sizes.values()),
                       {**program.constants, "num_warps": program.warps}, list({id(one): one for one in tensors}.values()))


def _described(program: Ordinary, array: Array, base: torch.Tensor) -> Any:
    shape = [program.sizes.get(axis, program.constants.get(axis)) for axis in array.in_memory(array.axes)]
    block = [program.constants[axis] for axis in array.in_memory(array.tile)]
    return mimw.TensorDescriptor(base, shape, [base.shape[1], 1], block)


def _vector(program: Ordinary, name: str, made: dict[str, torch.Tensor], device: str) -> torch.Tensor:
    if name == "table":
        return torch.randint(0, 2, (ENTRIES, ), dtype=torch.int32, device=device)
    if name == "ends":
        return torch.tensor([program.sizes["K"]], dtype=torch.int32, device=device)
    if name.endswith("_at"):
        return torch.randperm(len(made[name.removesuffix("_at")]), dtype=torch.int32, device=device)
    return _random((max(program.extents.values()) + SLACK, ), torch.float32, device)


def _random(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    most = 1 if dtype is torch.float8_e4m3fn else 4 if dtype in (torch.int8, torch.int32) else 2
    return torch.randint(-most, most + 1, shape, dtype=torch.int8, device=device).to(dtype)
