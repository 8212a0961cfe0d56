"""Every error a user can meet, in one tree.

Input: the facts of a mistake: the lines, the numbers, the mend. Output: an exception of a kind below, with a message
that says where the mistake is, the facts with their sum, and the mend. For example:

    except mimw.errors.TooFewArrivals as error: error.sites         the lines of the kernel

This file has all kinds in one place, so that every package folder raises the same kind for the same mistake:

    MimwError
    ├── KernelError            a kernel that cannot be right; names the user's lines
    │   ├── LanguageError      a name, a statement, an argument or a type that kernels do not have
    │   ├── AssertionFailed    a `tl.static_assert` of the kernel's author does not hold
    │   ├── ResourceError      more of something than the chip has; the message holds the sum
    │   │   ├── OutOfSharedMemory
    │   │   ├── OutOfTensorMemory
    │   │   ├── OutOfLocalMemory
    │   │   ├── TooManyWarps
    │   │   └── TooFewRegisters
    │   ├── ProtocolError      barriers that can never work out; the compiler raises the kinds of the simulator:
    │   │   ├── ArriveCountMismatch     TooFewArrivals, TooManyArrivals
    │   │   ├── ExpectedBytesMismatch   BytesNeverSent, BytesNotExpected
    │   │   ├── AsyncDotMisuse          AsyncDotReadEarly, AsyncDotOverwritten
    │   │   └── WaitCycle
    │   ├── TaskError          what tasks may hold and capture
    │   ├── StructError        an invalid `tle.struct`: its class, a call of the class, a name that it does not have
    │   ├── AssemblerError     the assembler in use is known to get such a kernel wrong
    │   ├── AliasError         buffers that share storage in an impossible way
    │   ├── RemoteTwice        a pointer that leads to another GPU is made one of another GPU's once more
    │   ├── IllegalPath        a copy, or a computation, for which the chip has no path
    │   ├── LayoutConflict     no layout suits all; the smallest set of lines that disagree
    │   ├── RawCodeError       invalid raw code of the author's; names its line
    │   │   └── UnknownSymbolError      a name that is neither the author's nor a dialect's
    │   └── NotYet             a function of the language that this release does not offer
    ├── SimulationError        found while running on the CPU
    │   ├── Deadlock           no task can go on
    │   │   ├── WaitCycle               tasks wait for each other in a ring
    │   │   ├── PhaseOffByOne           a wait names the other parity than the one that would let it pass
    │   │   ├── TooFewArrivals
    │   │   ├── BytesNeverSent
    │   │   ├── RankMissing             a barrier of several GPUs that a rank will not reach
    │   │   ├── SignalNeverSent         a wait for a signal that no task will send
    │   │   └── Livelock                tasks spin on memory that does not change
    │   │       └── EndlessLoop         a loop took more trips than a task may take in the simulator
    │   ├── DataRace           two accesses that nothing orders
    │   │   ├── MissingFence            ordered, but for the wrong proxy
    │   │   ├── CopyReadEarly           read before the copy into it is known to have landed
    │   │   ├── OperandOverwritten      written while an asynchronous dot reads it
    │   │   ├── SourceOverwritten       written while a TMA store or a tmem_copy reads it
    │   │   ├── SlotReusedEarly         written before another task is known to have read it
    │   │   ├── ScopeTooNarrow          two GPUs, ordered only by atomics whose scope ends at the GPU
    │   │   ├── MissingSystemFence      two GPUs, ordered only by relaxed atomics with no fence of system scope
    │   │   ├── SignalOvertakesData     a peer gets a signal about a copy that need not have ended
    │   │   └── UnfinishedAtExit        a copy from or to shared memory that may outlive its CTA
    │   ├── PartlyOverwritten  an operation of a local memory writes a part of what it reads; the compiler raises it, too
    │   ├── UnwrittenRead
    │   ├── OutOfBounds
    │   │   └── PeerUnreachable         in another GPU's memory, of an array that is not symmetric
    │   ├── IllegalCopy        a TMA or bulk copy that begins, or is as long, as no chip takes it; the compiler raises it, too
    │   ├── DivisionByZero     of integers, for which no GPU promises a result
    │   ├── BarrierMisuse
    │   │   ├── TooManyArrivals
    │   │   ├── BytesNotExpected
    │   │   ├── PhaseMissed             a phase may be over before the task that waits for it has looked
    │   │   ├── SignalReusedEarly       a signal is changed before its waiter is known to have read it
    │   │   └── BarrierNotReady         used before its initialisation is known to be visible
    │   ├── AsyncDotReadEarly
    │   ├── PeerExited
    │   ├── WrongResult        a result differs from what `expected=` gives; names the program and the lines that made it
    │   └── SimulatorMisuse    bad arguments to `mimw.simulate` or `mimw.check`
    ├── LaunchError            what a launch cannot be given: cluster shapes, grids, tensor descriptors
    │   ├── ArgumentError           an argument is missing, or there is one too many; a `TypeError`, too
    │   │   └── UnknownKeyword      a keyword that neither the kernel nor a launch has; a `KeyError`, too
    │   ├── NotAKernel              what `mimw.jit` cannot make a kernel of
    │   ├── OutsideKernel           a function of kernels is called where no kernel is being recorded
    │   ├── ScoreModError           a `score_mod` of attention that kernels cannot have, or the tensors that it reads
    │   └── GlobalChanged           an object that a kernel names has changed since it was frozen, or compiled and not recorded
    ├── DistributedError       several GPUs: what their processes cannot do together (docs/DISTRIBUTED.md)
    │   ├── NoProcessGroup          no torch.distributed to stand on
    │   ├── MeshTooLarge            a mesh of more GPUs than the world has
    │   ├── NotSymmetric            a tensor that peers cannot access, in a call that needs one they can
    │   ├── PeerWithoutAccess       a GPU that cannot reach another one's memory
    │   ├── HeapFull                the symmetric heap is full; the message holds the sum
    │   ├── RanksDisagree           ranks ask for different things in one collective call
    │   └── PeerLate                a rank did not come within the time limit
    │       └── PeerLost                its process has ended
    ├── TuningError            a shape, a type, a field or a file that `mimw tune` cannot take
    ├── CacheError             Triton's folder of compiled kernels, or the disk, takes no more; an `OSError`, too
    ├── LibraryMissing         a module of the package mimw-kernels, which is not installed; an `ImportError`, too
    ├── AssemblerMissing       the assembler that makes the binary cannot be run; an `OSError`, too
    ├── TargetError            an unknown target, or a word that the target cannot do
    ├── IRSyntaxError          text that is no IR, by line and column
    └── InternalError          a bug of ours; the message says what to report, and names a file with all of it
        └── InvalidProgram     the IR broke its own rules
            └── OrderChanged   a pass of Triton's moved an effect past another one

A `KernelWarning` is no error: something that the author should know. An error of the compiler is a
`triton.CompilationError` as well as the kind above, so `except TooFewArrivals` catches the mistake, known before or
found in a run. Every error has `sites`, the lines of the kernel that it is about; of some there are none.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class KernelWarning(UserWarning):
    """A fact that the author of a kernel should know, though it may be intended."""


class RemarkWarning(KernelWarning):
    """A remark of the compiler's checks, at the kernel's line: the kernel is right, but does not run as its author intended, for
    instance since its register requests cannot be met. `mimw.check` puts the remark into its report instead."""


class MimwError(Exception):
    """Base of all errors of this package. `sites` are the lines of the kernel that the error is about, if it is about lines."""

    sites: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        """The name of the error's class, in reports and in `mimw check --json`."""
        return type(self).__name__


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """`error`, the error that it was raised from, and so on, each once: `raise error from error` makes a ring."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


@dataclass(frozen=True)
class Edit:
    """One change of a source file, which a machine can apply: `mimw check --fix` shows it, findings carry it.

    file     the path
    line     the first line that is replaced or deleted; of an insertion the line in front of which `text` comes
    last     the last such line
    action   "insert", "replace" or "delete"
    text     the new lines, each with its indentation and without a final newline; "" of a deletion

    For example `Edit("ring.py", 18, 18, "replace", "    tlx.barrier_wait(full[slot], phase)")`. Lines are those of the file as it
    is, also where several edits belong together.
    """

    file: str
    line: int
    last: int
    action: str
    text: str = ""

    def as_json(self) -> dict[str, str | int]:
        """Plain data, for `mimw check --json`."""
        return {"file": self.file, "line": self.line, "last": self.last, "action": self.action, "text": self.text}


def of_user(site):
    """The site, or where it lies in Triton's own library, as in `tl.sum`, that of the call in the user's file."""
    here = site
    while here is not None and _LIBRARY in here.file:
        here = here.caller
    return here or site


_LIBRARY = os.path.join("", "site-packages", "triton", "language", "")
_CALLS = 8      # that are shown of a long chain, and half as many at its end


def excerpt(site) -> str:
    """The source line of a site with a caret under the column, then the calls that led there: of very many the first and last."""
    lines, chain = [], list(site.chain())
    left_out = range(_CALLS, len(chain) - _CALLS // 2) if len(chain) > 2 * _CALLS else range(0)
    for index, here in enumerate(chain):
        if not here.line or index in left_out:
            if left_out and index == left_out.start:
                lines.append(f"... {len(left_out)} calls more ...")
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
        self.message, self.sites, self.hint = message, tuple(of_user(site) for site in sites if site is not None), hint
        super().__init__(self._text())

    def _text(self) -> str:
        where = f" at {self.sites[0]}" if self.sites else ""
        parts = [f"{self.kind}{where}: {self.message}"]
        if self.hint:
            parts.append(f"Mend: {self.hint}")
        parts += dict.fromkeys(excerpt(site) for site in self.sites)
        return "\n".join(part for part in parts if part)


class LanguageError(KernelError):
    """A name, a statement, an argument or a type that kernels do not have. What Python or Triton said is the `__cause__`."""


class AssertionFailed(KernelError):
    """A `tl.static_assert` of the kernel's author does not hold."""


class ResourceError(KernelError):
    """More of something than the chip has: `required` of what has `limit`, where one number says it."""

    def __init__(self, message: str, *sites, hint: str = "", required: int | None = None, limit: int | None = None):
        self.required, self.limit = required, limit
        super().__init__(message, *sites, hint=hint)


class OutOfSharedMemory(ResourceError):
    """The buffers, barriers and scratch of one CTA exceed the chip's shared memory."""


class OutOfTensorMemory(ResourceError):
    """The buffers of one CTA exceed the columns of tensor memory."""


class OutOfLocalMemory(ResourceError):
    """The buffers of one core exceed one of the memory spaces that a chip without shared memory has. The message has its map."""


class TooManyWarps(ResourceError):
    """The tasks of one CTA need more warps than a CTA may have."""


class TooFewRegisters(ResourceError):
    """An instruction, or all that a thread holds, needs more registers than a thread of so large a CTA has."""


class ProtocolError(KernelError):
    """Barriers, groups or asynchronous results used in a way that can never work out."""


class ArriveCountMismatch(ProtocolError):
    """A barrier waits for more arrivals than can come in a phase, or for fewer than always come."""


class ExpectedBytesMismatch(ProtocolError):
    """A barrier expects another number of bytes than the copies that complete on it bring."""


class AsyncDotMisuse(ProtocolError):
    """The result of an asynchronous dot is used before it has been waited for."""


class TaskError(KernelError):
    """A region of tasks with a content or a capture that it must not have."""


class StructError(KernelError):
    """An invalid `tle.struct`, or an invalid use of one: its class, the fields that it is given, a name that it does not have."""


class AliasError(KernelError):
    """Buffers that are to share storage in an impossible way."""


class RemoteTwice(KernelError, ValueError):
    """A pointer that leads to another GPU already is given to `tle.remote` or `tlx.peer_pointer`."""


class IllegalPath(KernelError):
    """A copy between two memory spaces between which the chip moves no data, or a computation in a space that the unit does not
    access. The message lists the paths of the chip."""


class LayoutConflict(KernelError):
    """A buffer or tile for which no layout suits all of its uses."""


class RawCodeError(KernelError):
    """A fault in raw code of the author's: in its text, its types, or its arguments. Names the line in the raw code."""


class UnknownSymbolError(RawCodeError):
    """Raw code uses a name that is neither the author's nor one of a dialect."""


class AssemblerError(KernelError):
    """The assembler in use is known to get such a kernel wrong: NVIDIA's ptxas of that release, with an operand of these dots."""


class NotYet(KernelError, NotImplementedError):
    """A function of the language that this release does not offer."""


class TtgirError(KernelError):
    """A text that is no module of TTGIR with one kernel, as MLIR reads it."""


class SimulationError(MimwError):
    """Something a run on the simulator found; kinds that are a `KernelError`, too, are what the compiler raises where it knows
    without running. `sites` are the source positions involved."""

    def __init__(self, message: str, *sites, hint: str = ""):
        self.message, self.sites, self.hint = message, tuple(of_user(site) for site in sites if site is not None), hint
        where = f" at {self.sites[0]}" if isinstance(self, KernelError) and self.sites else ""
        parts = [f"{type(self).__name__}{where}: {message}"]
        if hint:
            parts.append(f"Mend: {hint}")
        parts += dict.fromkeys(excerpt(site) for site in self.sites)
        Exception.__init__(self, "\n".join(part for part in parts if part))


class Deadlock(SimulationError):
    """A state in which no task can go on: each wait with its object, place and phase, and the tasks that could have arrived.
    `begun` says that the phase waited for has got some of its arrivals, so that it is the right one."""

    begun = False


class WaitCycle(Deadlock, ProtocolError):
    """Tasks that wait in a ring: each for an arrival that would come after the wait of the next."""


class PhaseOffByOne(Deadlock):
    """A wait names a parity that will not complete, or not yet; the wait for the other parity would have passed."""


class TooFewArrivals(Deadlock, ArriveCountMismatch):
    """A phase got some of its arrivals, and the missing ones can never come."""


class RankMissing(Deadlock):
    """Some ranks wait at a barrier of several GPUs that another rank will not reach."""


class RankDied(Deadlock):
    """A simulated GPU has died, as configured in its `mimw.World`, and others wait for it."""


class SignalNeverSent(Deadlock):
    """A task waits for a signal that no task will send."""


class BytesNeverSent(Deadlock, ExpectedBytesMismatch):
    """A phase expects bytes that no copy brings."""


class Livelock(Deadlock):
    """Tasks spin on global memory that does not change any more. `sites` are the loops in which they do, then other waits."""


class EndlessLoop(Livelock):
    """A loop never ends, or has taken more trips than a task may take in the simulator (MIMW_MAX_TRIPS)."""


class DataRace(SimulationError):
    """Two accesses to one place, one of them a write, that no barrier, wait or fence orders. It need not show in this
    run: the order is what is missing. `sites` are those of the earlier and the later access, then of what could order them; `space`
    is the memory of both, shared or global."""

    space = "shared"


class MissingFence(DataRace):
    """Accessed through the generic proxy, then read or overwritten by the asynchronous one, without a fence between:
    `fence("async_shared")` for shared memory, `fence("gpu")` for global memory."""


class OperandOverwritten(DataRace):
    """Written, or its memory freed or allocated again, while an asynchronous dot may still read it."""


class SourceOverwritten(DataRace):
    """Written, or its memory freed or allocated again, while a TMA store, or a `tmem_copy`, may still read it; also a store's
    descriptor."""


class SlotReusedEarly(DataRace):
    """Written before the reads of another task, or those of a descriptor by a load, are known to be done."""


class ScopeTooNarrow(DataRace):
    """Two GPUs access one place, and the release and the acquire between them have a scope that ends at the GPU."""


class MissingSystemFence(DataRace):
    """Two GPUs access one place, ordered only by a relaxed signal, with no fence of system scope."""


class SignalOvertakesData(DataRace):
    """A peer gets a signal about data while the copy that brings the data need not have ended."""


class UnfinishedAtExit(DataRace):
    """A CTA ends, and its shared memory is given away, before a copy from or to it is known to be done."""


class PartlyOverwritten(SimulationError, AliasError):
    """One operation of a local memory writes some of the elements that it reads, at other places: which of them are overwritten
    before they are read is not defined."""


class UnwrittenRead(SimulationError):
    """A use of shared or tensor memory that was never written: read, and then stored in global memory, taken as an address,
    mask or condition, or given to a product that keeps it. Or a read where a copy has not landed yet. Reading such memory,
    and computing with the values, is no mistake. The sites are those of the read and of the use."""


class CopyReadEarly(DataRace, UnwrittenRead):
    """Read, written again, freed or allocated again before the asynchronous copy into it is known to have landed."""


class OutOfBounds(SimulationError):
    """An address outside every argument, or a buffer index outside its array."""


class PeerUnreachable(OutOfBounds):
    """An address in another GPU's memory, of an array that is not symmetric: no other GPU reaches it."""


class IllegalCopy(SimulationError, KernelError):
    """A copy by TMA or by the bulk engine that begins where the engine takes none, or is of a size that it does not take: the GPU
    ends the launch with "an illegal instruction was encountered" or "misaligned address", and the context is lost."""


class BufferMisuse(SimulationError, KernelError):
    """An access by AMD's buffer instructions that does not do what it says: neighbours that were promised to follow each other and
    do not, or two elements of 16 bits, added at once, of which the mask takes one."""


class DivisionByZero(SimulationError):
    """A whole number divided by zero: PTX leaves the result open, and LLVM may compile it to anything."""


class BarrierMisuse(SimulationError):
    """A barrier used against its protocol."""


class TooManyArrivals(BarrierMisuse, ArriveCountMismatch):
    """A phase got more arrivals than the barrier was made for."""


class BytesNotExpected(BarrierMisuse, ExpectedBytesMismatch):
    """A phase got more bytes than it expects."""


class PhaseMissed(BarrierMisuse):
    """The next phase can complete before a task has looked at the one that it waits for: parities repeat."""


class SignalReusedEarly(BarrierMisuse):
    """A signal that a task waits for is changed again before that task is known to have looked at it."""


class BarrierNotReady(BarrierMisuse):
    """A barrier is used where its initialisation need not be visible yet."""


class AsyncDotReadEarly(SimulationError, AsyncDotMisuse):
    """The result of an asynchronous dot is read before the wait that finishes it."""


class AsyncDotOverwritten(AsyncDotMisuse):
    """The next trip of a loop writes the registers from which an asynchronous dot may still read its first operand."""


class PeerExited(SimulationError):
    """An access to another CTA's barrier or shared memory after that CTA has left the kernel."""


class WorkLost(SimulationError):
    """A CTA has got the work of a cluster that will not start, and ends without reading the answer: no CTA does that work."""


class RequestAfterRefusal(SimulationError):
    """A CTA asks for the work of another cluster after it has seen that such a request was refused; PTX leaves open what then
    happens."""


class WrongResult(SimulationError):
    """An array differs from what `expected=` gives for it. The first site is the store that wrote the first wrong element, the
    others are the lines that made its value."""


class SimulatorMisuse(SimulationError, ValueError):
    """Arguments that cannot be simulated."""


def fail(kind: type[SimulationError], task, op, message: str, *sites, hint: str = "") -> SimulationError:
    """The error of a simulated `task` at `op`, to be raised: the task's name, `message`, the lines of `op` and of `sites`."""
    return kind(f"{task.where}: {message}", op.site, *sites, hint=hint)


class LaunchError(MimwError, ValueError):
    """An invalid launch: a cluster shape, a grid that the cluster does not divide, a descriptor that TMA cannot have."""

    def __init__(self, message: str, *, hint: str = ""):
        super().__init__(f"{message}\nMend: {hint}" if hint else message)


class ArgumentError(LaunchError, TypeError):
    """An argument of a launch is missing, given twice, or one too many. `sites` has the line of the kernel's `def`."""

    def __init__(self, message: str, *sites, hint: str = ""):
        self.sites = tuple(site for site in sites if site is not None)
        super().__init__(message, hint=hint)


class UnknownKeyword(ArgumentError, KeyError):
    """A keyword of a launch that is neither a parameter of the kernel nor an option of launches."""

    def __str__(self) -> str:
        return "".join(map(str, self.args))     # a KeyError prints the quotes of a key


class CheckFailed(LaunchError, RuntimeError):
    """Findings of MIMW_CHECK=1 in a kernel, which was therefore not launched. `report` is the report of `mimw.check`."""

    def __init__(self, kernel, report):
        self.kernel, self.report = kernel, report
        super().__init__(f"{kernel} was not launched: MIMW_CHECK=1 looks at each specialisation before its first launch, and "
                         f"found\n\n{report}", hint="follow the mend of the finding; MIMW_CHECK=0 launches the kernel as it is.")

    def __reduce__(self):
        return CheckFailed, (self.kernel, str(self.report))


class NotAKernel(LaunchError, TypeError):
    """An object of which `mimw.jit` cannot make a kernel: a lambda, a class, a function whose source Python does not know."""


class OutsideKernel(LaunchError, RuntimeError):
    """A function of kernels is called by Python. Triton's own functions raise a `ValueError` there."""


class GlobalChanged(LaunchError, RuntimeError):
    """An object that a kernel names has changed since the kernel was frozen; or since it was compiled, if its program is needed
    only now. Ordinary launches and simulations use the new object; Triton raises a `RuntimeError`."""


class DistributedError(MimwError, RuntimeError):
    """A failure of the processes of several GPUs to work together. `ranks` are the ranks of the group that the message names."""

    def __init__(self, message: str, *, hint: str = "", ranks=()):
        self.ranks = tuple(ranks)
        super().__init__(f"{message}\nMend: {hint}" if hint else message)


class NoProcessGroup(DistributedError):
    """A missing process group of torch.distributed, or one that this process is not in."""


class MeshTooLarge(DistributedError, ValueError):
    """A mesh has more GPUs along its device axes than the world that it is bound to."""


class NotSymmetric(DistributedError, ValueError):
    """A tensor lies outside the symmetric heap, so no peer reaches it."""


class PeerWithoutAccess(DistributedError):
    """A GPU cannot access the memory of another one, or two ranks have one GPU, and not both have allowed that."""


class HeapFull(DistributedError, MemoryError):
    """The symmetric heap is full: `needed` bytes were requested where `free` bytes are left."""

    def __init__(self, message: str, *, hint: str = "", needed: int = 0, free: int = 0):
        self.needed, self.free = needed, free
        super().__init__(message, hint=hint)


class RanksDisagree(DistributedError, ValueError):
    """Ranks ask for different things in a call that all make together: another shape, another type, another call."""


class PeerLate(DistributedError, TimeoutError):
    """A rank did not reach a point where others wait for it within the time limit."""


class PeerLost(PeerLate):
    """The process of a rank has ended, so the rank takes no further part."""


class ScoreModError(LaunchError):
    """A `score_mod` of attention computes something that kernels do not, or that torch's own implementations compute in
    different ways; or the tensors that it reads are not those of its text."""


class TuningError(MimwError, ValueError):
    """A shape, a type, a field or a file that `mimw tune` cannot take."""

    def __init__(self, message: str, *, hint: str = ""):
        super().__init__(f"{message}\nMend: {hint}" if hint else message)


class CacheError(MimwError, OSError):
    """A compiled kernel cannot be kept: the cache's folder may not be written, or the disk is full. `errno` is the system's."""


class LibraryMissing(MimwError, ImportError):
    """A module of the library, which is a package of its own and not installed; the message names the command that installs it."""


class AssemblerMissing(MimwError, OSError):
    """The assembler that makes the binary cannot be run: there is none at its path, or it may not be executed."""


class TargetError(MimwError, ValueError):
    """An unknown target, or a function that the target lacks."""


class IRSyntaxError(MimwError):
    """A text is not IR as `mimw.ir` prints it: `line` and `column` count from 1."""

    def __init__(self, what: str, file: str, line: int, column: int, mend: str = ""):
        self.line, self.column = line, column
        super().__init__(f"{file}:{line}:{column}: {what}" + (f". Mend: {mend}" if mend else ""))


class InternalError(MimwError, RuntimeError):
    """A bug of ours. The message says what to report, and names a file that has all of it."""

    reported = False    # the message names that file already


class InvalidProgram(InternalError):
    """A bug of ours: the IR broke its own rules."""

    def __init__(self, problem: str, op: str = "", site=None):
        where = f" at {site}" if site else ""
        super().__init__(f"InvalidProgram{where}: {problem}\n  >> {op}\nThis is a bug in mimw, not in your kernel.")


class OrderChanged(InvalidProgram):
    """A bug of mimw: it let a pass of Triton's run that changed the order of two effects. `pass_name` is that pass."""

    def __init__(self, pass_name: str, moved: str, beside: str, *sites):
        self.pass_name, self.sites = pass_name, sites
        super().__init__(f"Triton's pass '{pass_name}' moved {moved} past {beside}; the kernel would compute something else than "
                         "what was recorded and simulated, so it is not compiled.\n" + "\n".join(map(excerpt, sites)), moved)
