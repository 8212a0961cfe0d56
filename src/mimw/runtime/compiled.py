"""What a compile gives: every stage's text or binary at once; the program and its layouts when somebody asks.

Input: what Triton compiled or found in its cache, and the source, which can record the kernel. Output: `Compiled`. An example:

    compiled = mimw.compile(gemm, grid, a, b, c)        from the cache in milliseconds
    compiled.ptx, compiled.registers                    the text that the cache had, and what its binary takes
    compiled.program, .layouts              recorded and solved now; so is compiled.stages["ir"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..compiler.pipeline.binary import Taken, taken_by_amdgcn, taken_by_cubin
from ..ir import Program, print_program
from ..ir.shown import Shown
from ..ir.site import site_of
from ..target import Target


class Source(Protocol):
    """The kernel that was compiled. `fn` is Triton's function, whose own `fn` is Python's."""

    fn: Any

    def has_program(self) -> bool:
        """True if it was or will be recorded: stock Triton has not compiled it by itself."""

    def program(self) -> Program | None:
        """The program, recorded if that was not done yet."""

    def orchestrates(self) -> bool:
        """True if it was compiled by ours: stock Triton compiles what has a program without our words, in a branch never taken."""

    def authored(self) -> Program:
        """The program before any pass."""

    def layouts(self) -> Any:
        """The layouts of what was compiled."""


class Stages(Mapping):
    """Triton's texts and binaries by stage, with `ir` before all of them, printed when asked for; `sass` is made when asked for."""

    def __init__(self, asm: Mapping[str, str | bytes], source: Source):
        self._asm, self._source = asm, source

    def __getitem__(self, name: str) -> str | bytes:
        return self._ir if name == "ir" and self._source.has_program() else self._asm[name]

    def __contains__(self, name) -> bool:
        return name in self._asm or name == "ir" and self._source.has_program()

    def __iter__(self) -> Iterator[str]:
        yield from self._asm
        if self._source.has_program():
            yield "ir"

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _ir(self) -> str:
        return print_program(self._source.program())


@dataclass
class Compiled(Shown):
    """A compiled kernel. `stages`: ir, source, ttgir, llir, ptx or amdgcn, cubin or hsaco; sass is made when asked for. `unaligned`
    names the pointer parameters of which nothing was said: a launch knows what divides its addresses."""

    name: str
    stages: Mapping[str, str | bytes]
    metadata: Any
    target: Target
    source: Source = field(repr=False)
    after: dict[str, str] = field(default_factory=dict)
    unaligned: tuple[str, ...] = ()

    @property
    def program(self) -> Program | None:
        """The recorded program after all passes; None for a kernel that stock Triton compiled."""
        return self.source.program() if self.source.orchestrates() or not self.target.binary else None

    @property
    def layouts(self) -> Any:
        """The layouts that were chosen; None where none were."""
        return self.source.layouts()

    def stage(self, name: str) -> str | bytes:
        """The text or binary after a stage; KeyError lists those there are."""
        if name == "recorded" and self.source.has_program():
            return self.recorded
        if name not in self.stages and name != "sass":
            raise KeyError(f"no stage {name!r}; there are {', '.join(self.stages)} and sass")
        return self.stages[name]

    @cached_property
    def recorded(self) -> str:
        """The kernel as it was recorded, before any pass: text for `mimw opt`. AttributeError for a kernel without our words."""
        if not self.source.has_program():
            raise AttributeError(f"{self.name} calls nothing of tlx or tle: stock Triton compiled it. "
                                 f"It has {', '.join(self.stages)}")
        return print_program(self.source.authored())

    @property
    def ir(self) -> str:
        """The program after all passes, without layouts."""
        return self._stage("ir")

    @property
    def ttgir(self) -> str:
        """Triton's GPU dialect, after all passes on it."""
        return self._stage("ttgir")

    @property
    def llir(self) -> str:
        """LLVM IR."""
        return self._stage("llir")

    @property
    def ptx(self) -> str:
        """NVIDIA's assembly text."""
        return self._stage("ptx")

    @property
    def sass(self) -> str:
        """The machine code of a cubin as text, by nvdisasm."""
        return self._stage("sass")

    @property
    def cubin(self) -> bytes:
        """NVIDIA's binary."""
        return self._stage("cubin")

    @property
    def amdgcn(self) -> str:
        """AMD's assembly text."""
        return self._stage("amdgcn")

    @property
    def hsaco(self) -> bytes:
        """AMD's binary."""
        return self._stage("hsaco")

    def _stage(self, name: str) -> Any:
        """AttributeError, not KeyError, as of any attribute that is not there."""
        backend = {"ptx": "cuda", "sass": "cuda", "cubin": "cuda", "amdgcn": "hip", "hsaco": "hip"}.get(name)
        if name == "ir" and not self.source.has_program() or backend not in (None, self.target.backend):
            raise AttributeError(f"{self.name} for {self.target.name} has no stage {name!r}; there are {', '.join(self.stages)}")
        return self.stages[name]

    @cached_property
    def _taken(self) -> Taken:
        return taken_by_cubin(self.cubin) if self.target.backend == "cuda" else taken_by_amdgcn(self.amdgcn)

    @property
    def registers(self) -> int:
        """Registers of 32 bits that each thread has at launch; tasks with `registers=` trade them among themselves later."""
        return self._taken.registers

    @property
    def stack_bytes(self) -> int:
        """Bytes of local memory a thread takes, for spilled registers and arrays; 0 is what one wants."""
        return self._taken.stack_bytes

    @property
    def spilled_registers(self) -> int | None:
        """Vector registers of a lane that were spilled, as AMD's assembly says; None for a cubin, which only has `stack_bytes`."""
        return self._taken.spilled

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a CTA asks for at launch: buffers, barriers, and the scratch of Triton's ops."""
        return self.metadata.shared

    @property
    def warps(self) -> int:
        """Warps of a CTA, those of all tasks together."""
        return self.metadata.num_warps

    def _page(self):
        from ..report.page import Page
        from .places import places

        facts = (self.target.name, f"{self.warps} warps", f"{self.registers} registers a thread",
                 f"{self.stack_bytes} bytes of stack")
        if self.program is None:
            return Page(self.name, facts, "stock Triton compiled this kernel, which calls nothing of tlx or tle",
                        sites=(site_of(self.source.fn.fn), ))
        rows = places(self)
        return Page(self.name, facts, program=self.program, target=self.target, rows=rows, shared=self.shared_bytes)

    def __str__(self) -> str:
        spilled = f", {self.spilled_registers} registers spilled" if self.spilled_registers else ""
        return (f"{self.name} for {self.target.name}: {self.warps} warps, {self.registers} registers a thread, {self.stack_bytes} "
                f"bytes of stack{spilled}, {self.shared_bytes} bytes of shared memory; stages {', '.join(self.stages)}")
