"""Launches of kernels that are given as TTGIR, or that are compiled first and read back.

Input: a module of TTGIR with a grid and arguments, or a kernel with them. Output: a `Launch`, which the simulator runs and the
checker checks as any other. For example:

    launch_of(read_ttgir(text, "tile.ttgir"), (2, ), (a, b, 64), "sm_90a")
    compiled_launch(kernel, (2, ), (a, b, 64), {"BLOCK": 64}, "sm_90a")         the kernel after all passes of its compiler
    gluon_launch(kernel, (2, ), (a, b, 64), {"BLOCK": 64}, chip)                what `mimw.simulate` runs of a kernel of Gluon's

Arguments are those of the compiled kernel: compile-time values are not among them, and a tensor descriptor is one argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..compiler.depth import deep
from ..compiler.launch import check_grid, check_numbers, extents_of, grid_extents
from ..compiler.pipeline import gpu_target, seen_by
from ..compiler.triton_port.codegen import CompilationError
from ..compiler.triton_port.mlir_complaints import MlirProblem, complaints
from ..compiler.triton_port.runtime import compiled_ttgir, is_gluons, make_backend
from ..compiler.ttgir import Reading, read_ttgir, with_late_passes
from ..errors import KernelError, NotYet, OutOfSharedMemory, SimulatorMisuse, TargetError
from ..ir import LaunchFacts, Pointer, Program, Site
from ..ir.site import site_of
from ..ir.world import at_rank
from ..target import Target, asking, wanted
from ..target import target as find_target
from .call import resolve, unknown_keyword
from .fits import Specialisation, finished
from .launch import Launch, memories, specialised

_SHARED = re.compile(r"\bttg\.shared = (\d+)")


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
    if reading.is_clusters:
        extents = (extents[0] * program.cluster_size, *extents[1:])
    check_grid(extents, program.cluster)
    return Launch(program.name, program, extents, values, program, None, memory=memories(memory, program, 1),
                  arguments=dict(zip(names, args, strict=True)), reading=reading)


def compiled_launch(kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any], target: str | None,
                    memory: Sequence[Any] = (), late_fences: bool = True, gpus: int | None = None,
                    assertions: bool = False) -> tuple[Launch, Reading]:
    """A launch of what a compiler makes of `kernel`: stock Triton of a `triton.jit`, Gluon of a `gluon.jit`, mimw of a `mimw.jit`;
    with the fences that Triton adds behind TTGIR, where it assigns shared memory, or without these. With `assertions` stock
    compilers keep those that they would leave out."""
    chip = wanted(target)
    fn, args, meta = resolve(kernel, args, meta)
    both = _options_too(fn, meta, chip) if is_gluons(fn) else {}
    specialisation, arguments, values, gpus = specialised(fn, args, meta, chip, gpus)
    specialisation = replace(specialisation, options=both | specialisation.options)
    with asking(chip):
        reading, program = _read(specialisation, chip, late_fences, assertions)
        first = {name: at_rank(value, 0) for name, value in arguments.items()}
        extents = grid_extents(extents_of(grid, first), chip.max_grid)
    facts = program.launch_facts if program else LaunchFacts()
    if facts.grid_of_clusters:
        extents = (extents[0] * facts.cluster_size, *extents[1:])
    launch = launch_of(reading, extents, list(_flat(program, values)), memory)
    return replace(launch, arguments=arguments, specialisation=specialisation, gpus=gpus), reading


def gluon_launch(kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any], chip: Target, gpus: int | None = None,
                 memory: Sequence[Any] = ()) -> Launch:
    """A launch of a kernel of Gluon's, as `simulate.prepare` makes one of a kernel of ours: assertions are checked, also those that
    a launch leaves out.

    errors:    those of Gluon's compiler; NotYet, with text and line, for what the reader does not know; OutOfSharedMemory;
               LaunchError for a grid that cannot be
    """
    launch, reading = compiled_launch(kernel, grid, args, meta, chip.name, memory, gpus=gpus, assertions=True)
    found = _SHARED.search(reading.text)
    if found is not None and int(found[1]) > chip.shared_bytes:
        raise OutOfSharedMemory(
            f"{launch.name} takes {found[1]} bytes of shared memory, but a CTA on {chip} has {chip.shared_bytes}",
            site_of(launch.specialisation.fn.fn), hint="allocate smaller buffers, or fewer",
            required=int(found[1]), limit=chip.shared_bytes)
    return launch


def _options_too(fn: Any, meta: dict[str, Any], chip: Target) -> dict[str, Any]:
    """The keywords of a launch that name a parameter of the kernel and an option of the compiler. Triton takes them for both, and
    kernels of Gluon's rely on that: `num_warps: gl.constexpr`, of which layouts are made."""
    known = vars(make_backend(gpu_target(chip)).parse_options({"enable_fp_fusion": True}))
    return {name: value for name, value in meta.items() if name in fn.arg_names and name in known}


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


def _read(specialisation: Specialisation, chip: Target, late_fences: bool, assertions: bool) -> tuple[Reading, Program | None]:
    """One specialisation as it was read, and the program that it was made of, if it was one of ours. Kept on the function of a
    kernel of Gluon's, which is launched again and again."""
    fn = specialisation.fn
    known = fn.__dict__.setdefault("_read_back", {}) if is_gluons(fn) else {}
    key = specialisation.key, late_fences, assertions
    if key not in known or seen_by(fn, specialisation.constants).unknown:   # what cannot be told from what it was is compiled again
        text, file, program = _text(specialisation, chip, assertions)
        if late_fences:
            text = with_late_passes(text)
        known[key] = read_ttgir(text, file, program.launch_facts if program else LaunchFacts()), program
    return known[key]


@deep()
def _text(one: Specialisation, chip: Target, assertions: bool) -> tuple[str, str, Program | None]:
    """The TTGIR of one specialisation, a name for it, and the program that it was made of. A kernel of mimw's without a word of
    ours goes Triton's way, and has none."""
    fn = one.fn
    file = f"<{fn.__name__}, compiled for {chip.name}>"
    ours = type(fn).__module__.startswith("mimw.") and not is_gluons(fn)
    if ours:
        program, module = finished(one, chip)
        if program.orchestrates():
            return str(module), file, program
    check_numbers(one.options)
    known = vars(make_backend(gpu_target(chip)).parse_options({"enable_fp_fusion": True}))
    if (unknown := next((name for name in one.options if name not in known), None)) is not None:
        raise unknown_keyword(fn, unknown, known)
    checked = {"debug": True, "sanitize_overflow": bool(one.options.get("debug"))} if assertions else {}
    options = {"enable_fp_fusion": True, **checked, **one.options}
    try:
        with complaints():
            return compiled_ttgir(fn, one.signature, one.constants, one.attrs, gpu_target(chip), options, ours), file, None
    except CompilationError as error:
        if is_gluons(fn) and "breakpoint is not defined" in str(error):
            raise NotYet("Gluon has no breakpoint()", site_of(fn.fn),
                         hint="take it out, and stop at the line by mimw.debug(kernel, grid, ...) or `mimw debug`.") from None
        raise
    except MlirProblem as problem:
        site = Site(problem.file, problem.line, problem.column - 1) if problem.file else site_of(fn.fn)
        raise KernelError(f"{'Gluon' if is_gluons(fn) else 'Triton'} does not compile this: {problem.what}", site) from None


def _names(reading: Reading) -> list[str]:
    """The name of each argument."""
    names: dict[tuple[int, ...], str] = {}
    for param in reading.program.params:
        names.setdefault(param.path, param.name)
    return list(names.values())
