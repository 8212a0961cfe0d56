"""A launch made ready for the simulator, and how a launch specialises a kernel.

Input: a JIT function, its arguments and keywords. Output: a `Specialisation` with the arguments; the `Launch` is what `simulate`
makes of it, by recording the kernel, or `ttgir`, by reading what a compiler made of it. For example:

    specialisation, arguments, values, gpus = specialised(double, (x, 256), {"BLOCK": 128}, chip)
    values                                  {(0, ): x, (1, ): 256}
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..compiler.analysis import makes_pointers
from ..compiler.launch import canonical_keywords
from ..compiler.pipeline import seen_by
from ..errors import SimulatorMisuse
from ..ir import Program
from ..ir.world import PerRank, at_rank, gpus_of
from ..simulator import live_tensors
from ..target import Target
from .call import MEMORY, bound, resolve
from .fits import Specialisation
from .host import is_aligned, is_array, specialise


@dataclass(frozen=True)
class Launch:
    """A launch made ready: the checked program, and what its parameters are bound to, by path. `recorded` is the program as
    the author wrote it, before any pass; `specialisation` what it takes to compile it; `gpus` how many ranks run it, for which
    `values` has a `world.PerRank` each where they differ; `memory` are further arrays, which the kernel reaches by addresses;
    `arguments` are what the author gave, by name. `reading` is what a compiler made of the kernel, as it was read back (a `Reading`
    of `compiler.ttgir`): of a kernel of Gluon's, and of TTGIR."""

    name: str
    program: Program
    grid: tuple[int, ...]
    values: dict[tuple[int, ...], Any]
    recorded: Program
    specialisation: Specialisation
    gpus: int = 1
    memory: tuple[Any, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)
    reading: Any = field(default=None, repr=False, compare=False)

    def arrays(self) -> list[Any]:
        """All values among which the launch may write arrays."""
        return [*self.values.values(), *self.memory]


def memory_of(meta: dict[str, Any], own: Sequence[str]) -> Sequence[Any]:
    """The arrays of the launch keyword `memory=`, which leaves `meta`; () without. `own` are the kernel's parameters: a keyword of
    that name is the kernel's."""
    return meta.pop(MEMORY, ()) if MEMORY not in own else ()


def memories(memory: Any, program: Program, gpus: int) -> tuple[Any, ...]:
    """The arrays that a launch reaches besides its arguments: those of `memory=`, and with MIMW_MEMORY=tensors those of torch."""
    return *_listed(memory), *_alive(program, gpus)


def _listed(memory: Any) -> Sequence[Any]:
    """`memory=` as it may be: arrays in a list or tuple. An array alone would be taken for a list of its rows."""
    if isinstance(memory, PerRank) or not isinstance(memory, (list, tuple)):
        raise SimulatorMisuse(f"memory= is a {type(memory).__name__}", hint="give a list of arrays: memory=[x, y]")
    return memory


def _alive(program: Program, gpus: int) -> list[Any]:
    """The tensors of the process that this launch may reach, if all are its memory: where it makes pointers of what it reads. A
    launch on several GPUs reaches none: no tensor says on which of them it is."""
    everything = os.environ.get("MIMW_MEMORY") or ""
    if everything not in ("", "tensors"):
        raise SimulatorMisuse(f"MIMW_MEMORY is {everything!r}", hint="MIMW_MEMORY=tensors: every live tensor of torch is memory")
    return live_tensors() if everything and gpus == 1 and makes_pointers(program) else []


def specialised(kernel, args, meta: dict[str, Any], chip: Target,
                gpus: int | None = None) -> tuple[Specialisation, dict[str, Any], dict[tuple[int, ...], Any], int]:
    """Specialise `kernel` for a launch, without recording it.

    returns:   the specialisation; the arguments by name; the run-time values by path, as `Launch` has them; how many GPUs
    """
    fn, args, meta = resolve(kernel, args, meta)
    seen_by(fn)     # the signature says the defaults of now
    meta = canonical_keywords(meta, fn.arg_names)
    memory_of(meta, fn.arg_names)
    options = {name: meta.pop(name) for name in list(meta) if name not in fn.arg_names}
    arguments = bound(fn, args, meta)
    gpus = gpus_of(list(arguments.values()), gpus)
    signature, constants, values = _specialised(fn, arguments, gpus)
    attrs = {path: [["tt.divisibility", 16]] for path, value in values.items()
             if is_aligned(at_rank(value, 0), fn.params[path[0]])}
    return Specialisation(fn, signature, constants, attrs, options, chip.name), arguments, values, gpus


def _specialised(fn, arguments: dict[str, Any], gpus: int):
    """Specialise as `host.specialise` does, for a launch on several GPUs: one program for all ranks, and values that are
    `PerRank` for arrays."""
    if gpus == 1:
        return specialise(fn, {name: at_rank(value, 0) for name, value in arguments.items()})
    found = []
    for rank in range(gpus):
        signature, constants, values = specialise(fn, {name: at_rank(value, rank) for name, value in arguments.items()})
        aligned = {path for path, value in values.items() if is_aligned(value, fn.params[path[0]])}
        found.append((repr(signature), repr(sorted(constants.items(), key=str)), aligned, signature, constants, values))
    for rank, one in enumerate(found):
        if one[:3] != found[0][:3]:
            raise SimulatorMisuse(f"ranks 0 and {rank} would run different programs: their arguments differ in type, in what is 1 "
                                  "or in what is a multiple of 16",
                                  hint=f"name the argument that differs in do_not_specialize of {fn.__name__}, or make it alike")
    values = {}
    for path, value in found[0][5].items():
        given = arguments[fn.params[path[0]].name]
        for index in path[1:]:
            given = given if isinstance(given, PerRank) else given[index]
        if isinstance(given, PerRank):
            values[path] = given if len(path) == 1 else PerRank([one[5][path] for one in found], given.name, given.is_symmetric)
        elif is_array(value) or hasattr(value, "block_shape"):
            raise SimulatorMisuse(f"argument {fn.params[path[0]].name!r} is one array for {gpus} GPUs, of which each has "
                                  "memory of its own",
                                  hint="pass world.each(...) or world.symmetric(...), with an array for each rank")
        else:
            values[path] = value
    return found[0][3], found[0][4], values


