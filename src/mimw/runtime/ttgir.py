"""Launches of kernels that are given as TTGIR, or that are compiled first and read back.

Input: a module of TTGIR with a grid and arguments, or a kernel with them. Output: a `Launch`, which the simulator runs and the
checker checks as any other. For example:

    launch_of(read_ttgir(text, "tile.ttgir"), (2, ), (a, b, 64), "sm_90a")
    compiled_launch(kernel, (2, ), (a, b, 64), {"BLOCK": 64}, "sm_90a")         the kernel after all passes of its compiler

Arguments are those of the compiled kernel: compile-time values are not among them, and a tensor descriptor is one argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..compiler.launch import check_grid, extents_of, grid_extents
from ..compiler.pipeline import gpu_target
from ..compiler.triton_port.late_fences import with_late_fences
from ..compiler.triton_port.runtime import compiled_ttgir
from ..compiler.ttgir import Reading, read_ttgir
from ..errors import SimulatorMisuse, TargetError
from ..ir import LaunchFacts, Pointer, Program
from ..target import asking, wanted
from ..target import target as find_target
from .call import resolve
from .fits import finished
from .simulate import Launch, specialised


def chip_of(reading: Reading, asked: str | None) -> Any:
    """The chip whose rules hold: the one that is asked for, else the one that the module is compiled for."""
    if asked is not None or not reading.target:
        return wanted(asked)
    try:
        return find_target(reading.target)
    except TargetError as error:
        raise TargetError(f"{reading.file} is compiled for {reading.target}, whose rules are not known",
                          hint="name the nearest chip with target=") from error


def launch_of(reading: Reading, grid: Any, args: Sequence[Any], memory: Sequence[Any] = ()) -> Launch:
    """A launch of a kernel that was read, with an argument for each of its own."""
    program, names = reading.program, _names(reading)
    if len(args) != len(names):
        raise SimulatorMisuse(f"{program.name} has {len(names)} arguments, {', '.join(names)}, and {len(args)} are given",
                              program.site, hint="compile-time values are no arguments of TTGIR; a tensor descriptor is one")
    values = {(place, ): value for place, value in enumerate(args)}
    for place, number in reading.divisible.items():
        if isinstance(values[place, ], (int, np.integer)) and int(values[place, ]) % number:
            raise SimulatorMisuse(f"{names[place]} is compiled as a multiple of {number}, and is not", program.site,
                                  hint="give a multiple, or compile for the argument that you give")
    extents = grid_extents(extents_of(grid, dict(zip(names, args, strict=True))))
    check_grid(extents, program.cluster)
    return Launch(program.name, program, extents, values, program, None, memory=tuple(memory),
                  arguments=dict(zip(names, args, strict=True)))


def compiled_launch(kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any], target: str | None,
                    memory: Sequence[Any] = (), late_fences: bool = True) -> tuple[Launch, Reading]:
    """A launch of what a compiler makes of `kernel`: stock Triton of a `triton.jit`, Gluon of a `gluon.jit`, mimw of a `mimw.jit`;
    with the fences that Triton adds behind TTGIR, where it assigns shared memory, or without these."""
    chip = wanted(target)
    fn, args, meta = resolve(kernel, args, meta)
    specialisation, arguments, values, _ = specialised(fn, args, meta, chip)
    with asking(chip):
        text, file, program = _text(specialisation, kernel, chip)
        if late_fences and chip.backend == "cuda":
            text = with_late_fences(text, chip.arch)
    facts = program.launch_facts if program else LaunchFacts()
    reading = read_ttgir(text, file, facts)
    extents = grid_extents(extents_of(grid, arguments))
    if facts.grid_of_clusters:
        extents = (extents[0] * facts.cluster_size, *extents[1:])
    launch = launch_of(reading, extents, list(_flat(program, values)), memory)
    return replace(launch, arguments=arguments), reading


def _flat(program: Program | None, values: dict[tuple[int, ...], Any]) -> Iterator[Any]:
    """The arguments of a compiled kernel. On a chip without tensor maps a descriptor is its base, extents and strides, whether what
    is outside counts as NaN, whether floats are rounded, and Triton's own extents and strides."""
    params = program.params if program else ()
    for path in sorted(values):
        value, own = values[path], [param for param in params if param.path == path]
        if len(own) < 2 or not isinstance(own[0].value.type, Pointer):
            yield value
            continue
        flags = value.padding == "nan", bool(getattr(value, "round_f32_to_tf32", False))
        yield from (value.base, *value.shape, *value.strides, *flags, *value.shape, *value.strides)


def _text(specialisation: Any, kernel: Any, chip: Any) -> tuple[str, str, Program | None]:
    """The TTGIR of one specialisation, a name for it, and the program that it was made of. A kernel of mimw's without a word of
    ours goes Triton's way, and has none."""
    one, fn = specialisation, specialisation.fn
    file = f"<{fn.__name__}, compiled for {chip.name}>"
    if type(kernel).__module__.startswith("mimw."):
        program, module = finished(one, chip)
        if program.orchestrates():
            return str(module), file, program
    return compiled_ttgir(fn, one.signature, one.constants, one.attrs, gpu_target(chip), one.options), file, None


def _names(reading: Reading) -> list[str]:
    """The name of each argument."""
    names: dict[tuple[int, ...], str] = {}
    for param in reading.program.params:
        names.setdefault(param.path, param.name)
    return list(names.values())
