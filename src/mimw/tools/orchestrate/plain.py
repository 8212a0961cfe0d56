"""A launch of an ordinary kernel, made ready to be orchestrated.

Input: a kernel of `triton.jit` or `mimw.jit`, a grid and arguments. Output: a `Plain`. For example:

    plain = plain_of(gemm, grid, (a, b, c, 4096), {"BLOCK": 128}, "sm_90a")
    plain.program, plain.parameters         the program as its author wrote it; the names of its run-time parameters
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...compiler.orchestrate.known_branches import with_known_branches
from ...compiler.orchestrate.reassociate import Reassociated, reassociated
from ...compiler.passes import run_passes
from ...errors import MimwError
from ...ir import Program
from ...runtime.call import resolve
from ...runtime.gluons import refuse_gluons
from ...runtime.simulate import Launch, prepare
from ...target import Target, wanted
from .inputs import copies_of, on_the_host, relocated

_TL = {"i1": "int1", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
       **{f"{sign}{bits}": f"{word}{bits}" for sign, word in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}}


class CannotOrchestrate(MimwError):
    """A launch that automatic orchestration does not take, with the reason."""


@dataclass(frozen=True)
class Plain:
    """A launch of a plain kernel. `kernel`, `grid`, `args` and `meta` are as given; `arguments` has all arguments by name; `memory`
    are arrays that the kernel reaches by addresses out of them. `launch` runs the program that is to be orchestrated: the author's,
    or, where `reassociate` allows it, one whose scales are joined; then `rewritten` has what was joined, and `author` the author's
    own launch."""

    kernel: Any
    grid: Any
    args: tuple
    meta: dict[str, Any]
    chip: Target
    launch: Launch
    author: Launch
    memory: tuple[Any, ...] = ()
    reassociate: bool = False
    rewritten: Reassociated | None = None

    @property
    def name(self) -> str:
        return self.launch.name

    @property
    def program(self) -> Program:
        """The program, less branches that its own text decides."""
        return self.launch.recorded.kept(with_known_branches)

    @property
    def note(self) -> str:
        """The paragraph of a module's docstring that says what was joined; "" if nothing was."""
        if self.launch is self.author:
            return ""
        lines = ", ".join(map(str, sorted({one.site.line for one in self.rewritten.joins})))
        most = 2 * max(one.scales for one in self.rewritten.joins)
        return (f"Not the bits of the plain kernel: the scales of the product of line {lines} are multiplied with each other\n"
                f"first, as `reassociate` allowed. A term is at most {most} roundings of fp32, each of 2^-24 of it, from the\n"
                "plain kernel's. What is proved equal is this kernel and the plain one with its scales joined. Launches that\n"
                "this kernel is not for take the plain one, with its bits.\n\n")

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.launch.arguments

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments that the program takes, in their order: without constants, and numbers that are 1."""
        names = self.launch.specialisation.fn.arg_names
        return [names[place] for place, *_ in dict.fromkeys(param.path for param in self.program.params)]

    @property
    def unspecialised(self) -> list[str]:
        """Those of them whose author wants no kernel of their own for 1 and for multiples of 16."""
        asked = {one.name for one in self.launch.specialisation.fn.params if one.do_not_specialize}
        return [name for name in self.parameters if name in asked]

    @property
    def annotated(self) -> dict[str, str]:
        """The types that its author gave numbers among them, as words of `tl`."""
        asked = {one.name: one.annotation_type for one in self.launch.specialisation.fn.params}
        return {name: f"tl.{_TL[asked[name]]}" for name in self.parameters if asked[name] in _TL}

    @property
    def given(self) -> list[Any]:
        """The values of these arguments."""
        return [self.launch.arguments[name] for name in self.parameters]

    @property
    def num_warps(self) -> int:
        return self.program.num_warps

    def with_values(self, changed: Mapping[str, Any], drawn: bool = True) -> Plain:
        """The same launch with other values of some arguments, and with random numbers in the arrays that addresses lead to; with
        zeros if none are to be `drawn`."""
        names = self.launch.specialisation.fn.arg_names
        args = {**dict(zip(names, self.args)), **{name: value for name, value in self.meta.items() if name in names}, **changed}
        options = {name: value for name, value in self.meta.items() if name not in names}
        fresh = copies_of(self.memory, drawn)
        args = {name: relocated(value, self.memory, fresh) for name, value in args.items()}
        return plain_of(self.kernel, self.grid, (), {**args, **options}, self.chip.name, fresh, self.reassociate)


def has_defaults(fn: Any) -> bool:
    """True if a launch of `fn` may leave arguments out; asked once, not at each launch."""
    return any(one.default is not one.empty for one in fn.signature.parameters.values())


def with_defaults(fn: Any, args: tuple, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a launch of `fn` with those that it leaves to the kernel's defaults."""
    left = list(fn.signature.parameters.values())[len(args):]
    return {one.name: one.default for one in left if one.default is not one.empty and one.name not in meta} | dict(meta)


def plain_of(kernel: Any, grid: Any, args: tuple, meta: Mapping[str, Any], target: str | None = None,
             memory: Sequence[Any] = (), reassociate: bool = False) -> Plain:
    """The launch, recorded; `memory` has the arrays that the kernel reaches by addresses out of its arguments. With
    `reassociate` the scales of a product are joined.

    errors:    CannotOrchestrate for arguments that are tuples, and for launches over clusters or several GPUs
    """
    chip = wanted(target)
    kernel, args, meta = resolve(kernel, args, dict(meta))
    refuse_gluons(kernel, "mimw.orchestrate takes kernels of triton.jit and mimw.jit",
                  "write it in functions of tl")
    args, meta = tuple(map(on_the_host, args)), {name: on_the_host(value) for name, value in meta.items()}
    host = tuple(map(on_the_host, memory))
    if memory:
        args = tuple(relocated(value, memory, host) for value in args)
        meta = {name: relocated(value, memory, host) for name, value in meta.items()}
    launch = prepare(kernel, grid, args, dict(meta), chip.name, memory=host)
    if any(len(param.path) > 1 for param in launch.recorded.params):
        raise CannotOrchestrate(f"{launch.name} takes a tuple of arguments, and an orchestrated kernel takes single ones")
    if launch.gpus > 1 or launch.recorded.cluster_size > 1:
        raise CannotOrchestrate(
            f"{launch.name} runs on {launch.gpus} GPUs, in clusters of {launch.recorded.cluster_size} CTAs; only "
            "launches on one GPU without clusters are orchestrated")
    made = reassociated(launch.recorded.kept(with_known_branches)) if reassociate and not launch.recorded.orchestrates() else None
    ours = launch if made is None or not made.joins else with_program(launch, made.program, chip)
    return Plain(kernel, grid, tuple(args), dict(meta), chip, ours, launch, host, reassociate, made)


def with_program(launch: Launch, program: Program, chip: Target) -> Launch:
    """The launch of another program with the same parameters."""
    checked = program.kept(_CHECKED.setdefault(chip.name, lambda program: run_passes(program, chip)))
    return replace(launch, program=checked, recorded=program)


_CHECKED: dict[str, Any] = {}       # by the chip: the passes, as one function, so that a program keeps what they make of it
