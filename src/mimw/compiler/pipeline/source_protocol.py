"""The protocol of a source: what its key, its kept warnings and its refusals ask of it.

Input: a `pipeline.source.MimwSource`, which is made of the parts that ask. Output: the names that these parts may use. For example:

    def keep_warnings(src: KernelSource, compiled) -> None: ...

So these parts import this file, and only `source.py` imports them.
"""

from __future__ import annotations

from typing import Any, Protocol

from ...ir import LineWarning, Program
from ..frontend.seen import Seen
from ..triton_port.runtime import GPUTarget


class KernelState(Protocol):
    """How far the specialisation is that a source stands for: `pipeline.stages.Kernel`."""

    program: Program | None
    warned: list[LineWarning] | None


class KernelSource(Protocol):
    """One specialisation of a JIT function, for a target."""

    fn: Any
    kernel: KernelState
    target: GPUTarget | None
    options: dict

    @property
    def seen(self) -> Seen:
        """The texts and values that recording the kernel looks at."""

    def has_program(self) -> bool:
        """True if the kernel names one of our words."""

    def program(self) -> Program | None:
        """The program, recorded if that was not done yet; None for a kernel without our words."""

    def recorded(self) -> Program:
        """The program, recorded now."""

    def orchestrates(self) -> bool:
        """True if the kernel uses our words when specialised like this."""

    def ttir(self, options, codegen_fns, module_map, context) -> Any:
        """Triton's own IR of a kernel without ops of ours."""
