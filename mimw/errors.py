"""Every error a user can meet, in one tree.

    MimwError
    ├── KernelError            a kernel that cannot be right; names the user's lines
    │   ├── ResourceError      more of something than the chip has; the message holds the sum
    │   │   ├── OutOfSharedMemory
    │   │   ├── TooManyWarps
    │   │   └── TooManyRegisters
    │   ├── ProtocolError      barriers that can never work out
    │   │   ├── ArriveCountMismatch
    │   │   ├── ExpectedBytesMismatch
    │   │   └── AsyncDotMisuse
    │   ├── TaskError          what tasks may hold and capture
    │   ├── LayoutConflict     no layout suits all; the smallest set of lines that disagree
    │   └── NotYet             a word of the language that this release does not offer
    ├── SimulationError        found while running on the CPU
    │   ├── Deadlock
    │   ├── UnwrittenRead
    │   ├── OutOfBounds
    │   ├── BarrierMisuse
    │   ├── AsyncDotReadEarly
    │   ├── PeerExited
    │   └── SimulatorMisuse    bad arguments to `mimw.simulate`
    ├── LaunchError            launch options that cannot be: cluster shapes, grids
    ├── TargetError            an unknown target, or a word that the target cannot do
    └── InvalidProgram         a bug of ours: the IR broke its own rules

A message says where, the facts with their sum, and the mend.
"""

from __future__ import annotations

import linecache


class MimwError(Exception):
    """Base of all errors of this package."""


def excerpt(site) -> str:
    """The source line of a site with a caret under the column, then the calls that led there."""
    lines = []
    for index, here in enumerate(site.chain()):
        if not here.line:
            continue
        text = linecache.getline(here.file, here.line).rstrip("\n")
        prefix = "" if index == 0 else "called from "
        lines.append(f"{prefix}{here.file}:{here.line}" + (f" in {here.function}" if here.function else ""))
        if text:
            lines += ["    " + text, "    " + " " * min(here.column, len(text)) + "^"]
    return "\n".join(lines)


class KernelError(MimwError):
    """A kernel that cannot be right. `sites` are the user's source positions, the first is where it shows."""

    def __init__(self, message: str, *sites, hint: str = ""):
        self.message, self.sites, self.hint = message, tuple(site for site in sites if site is not None), hint
        super().__init__(self._text())

    @property
    def kind(self) -> str:
        return type(self).__name__

    def _text(self) -> str:
        where = f" at {self.sites[0]}" if self.sites else ""
        parts = [f"{self.kind}{where}: {self.message}"]
        if self.hint:
            parts.append(f"Mend: {self.hint}")
        parts += [excerpt(site) for site in self.sites]
        return "\n".join(part for part in parts if part)


class ResourceError(KernelError):
    """More of something than the chip has."""


class OutOfSharedMemory(ResourceError):
    """The buffers, barriers and scratch of one CTA exceed the chip's shared memory."""


class TooManyWarps(ResourceError):
    """The tasks of one CTA need more warps than a CTA may have."""


class TooManyRegisters(ResourceError):
    """The tasks of one CTA request more registers than the chip's register file holds."""


class ProtocolError(KernelError):
    """Barriers, groups or asynchronous results used in a way that can never work out."""


class ArriveCountMismatch(ProtocolError):
    """A barrier waits for more arrivals than can come in a phase, or for fewer than always come."""


class ExpectedBytesMismatch(ProtocolError):
    """A barrier expects another number of bytes than the copies that complete on it bring."""


class AsyncDotMisuse(ProtocolError):
    """The result of an asynchronous dot is used before it has been waited for."""


class TaskError(KernelError):
    """A region of tasks holds or captures what it must not."""


class LayoutConflict(KernelError):
    """No layout suits everything that is done with one buffer or tile."""


class NotYet(KernelError, NotImplementedError):
    """A word of the language that this release does not offer."""


class SimulationError(MimwError):
    """Something a run on the simulator found. `sites` are the source positions involved."""

    def __init__(self, message: str, *sites, hint: str = ""):
        self.message, self.sites, self.hint = message, tuple(site for site in sites if site is not None), hint
        parts = [f"{type(self).__name__}: {message}"]
        if hint:
            parts.append(f"Mend: {hint}")
        parts += [excerpt(site) for site in self.sites]
        super().__init__("\n".join(part for part in parts if part))


class Deadlock(SimulationError):
    """No task can go on: who waits for what, where, in which phase, and who could have arrived."""


class UnwrittenRead(SimulationError):
    """Shared memory is read where nothing has been written, or where a copy has not landed yet."""


class OutOfBounds(SimulationError):
    """An address outside every argument, or a buffer index outside its array."""


class BarrierMisuse(SimulationError):
    """A barrier got more arrivals or bytes than its phase takes."""


class AsyncDotReadEarly(SimulationError):
    """The result of an asynchronous dot is read before the wait that finishes it."""


class PeerExited(SimulationError):
    """Another CTA's barrier or shared memory is touched after that CTA has left the kernel."""


class SimulatorMisuse(SimulationError, ValueError):
    """Arguments that cannot be simulated."""


class LaunchError(MimwError, ValueError):
    """Launch options that cannot be: a cluster shape, or a grid that it does not divide."""

    def __init__(self, message: str, *, hint: str = ""):
        super().__init__(f"{message}\nMend: {hint}" if hint else message)


class TargetError(MimwError, ValueError):
    """An unknown target, or a word that the target cannot do."""


class InvalidProgram(MimwError):
    """A bug of ours: the IR broke its own rules."""

    def __init__(self, problem: str, op: str = "", site=None):
        where = f" at {site}" if site else ""
        super().__init__(f"InvalidProgram{where}: {problem}\n  >> {op}\nThis is a bug in mimw, not in your kernel.")
