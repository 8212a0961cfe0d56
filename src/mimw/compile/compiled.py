"""What a compile gives: every stage's text or binary at once; the program and its layouts when somebody asks.

Input: what Triton compiled or found in its cache, and the source, which can record the kernel. Output: `Compiled`. An example:

    compiled = compile_kernel(...)          from the cache in milliseconds
    compiled.stages["ptx"]                  the text that the cache had
    compiled.program, .layouts              recorded and solved now; so is compiled.stages["ir"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..ir import Program, print_program
from ..target import Target


class Source(Protocol):
    """The kernel that was compiled."""

    def has_program(self) -> bool:
        """True if it was or will be recorded: stock Triton has not compiled it by itself."""

    def program(self) -> Program | None:
        """The program, recorded if that was not done yet."""

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
class Compiled:
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
        return self.source.program()

    @property
    def layouts(self) -> Any:
        """The layouts that were chosen; None where none were."""
        return self.source.layouts()

    def stage(self, name: str) -> str | bytes:
        """The text or binary after a stage; KeyError lists those there are."""
        if name not in self.stages and name != "sass":
            raise KeyError(f"no stage {name!r}; there are {', '.join(self.stages)} and sass")
        return self.stages[name]
