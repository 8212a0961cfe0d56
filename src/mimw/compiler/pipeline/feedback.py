"""The feedback stage: facts that only an optimised module shows, for the next lowering of the same program.

    learned = BANK_CONFLICTS.learn(program, layouts, module, chip)      {12: a swizzled layout}, 12 the number of a `local_alloc`
    feedback = replace(Feedback(), free_buffers=learned)                lowering begins again with it

Input: a program, the layouts that it was lowered with, and the module after Triton's passes. Output: a `Feedback`, in which every
fact is keyed by the number of a recorded op in program order (`Program.walk`), so that ops on one source line stay apart. Which
facts there are, in which order they are found, and which program asks for each of them: `LESSONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ir import Op, Program, Value
from ...ir.layouts import RegisterLayout
from ...target import Target
from ..constraints.bank_conflicts import BankChoice, fewer_conflicts, free_buffers
from ..constraints.bank_counts import TileAccess
from ..constraints.lds_pieces import fits
from ..constraints.solution import Layouts
from ..triton_port.accesses import accessed_layouts, buffer_accesses, copies, stored_layouts
from ..triton_port.passes import unfit_copies
from ..triton_port.text import finished_module


@dataclass(frozen=True)
class Access:
    """An access to global memory in a finished module: the layout of its tile; `direct` unless it is a copy that the chip cannot do
    past the registers."""

    layout: RegisterLayout
    direct: bool = True


@dataclass(frozen=True)
class Feedback:
    """The findings of earlier lowerings of a program, by the numbers of its ops.

    `masked_stores`: masked `local_store` -> the layout in which Triton's passes would store its tile. `copies_by_registers`: the
    `async_load`s that the chip's asynchronous copy cannot do. `accesses`: buffer word -> how Triton's passes would do it through
    pointers. `free_buffers`: `local_alloc` of an array without demands -> the
    layout in which its accesses meet in the fewest banks.
    """

    masked_stores: Mapping[int, RegisterLayout] = field(default_factory=dict)
    accesses: Mapping[int, Access] = field(default_factory=dict)
    copies_by_registers: Mapping[int, bool] = field(default_factory=dict)
    free_buffers: Mapping[int, BankChoice] = field(default_factory=dict)

    def of_ops(self, program: Program, facts: str) -> dict[Op, Any]:
        """The facts of that name, each with its op of the program."""
        found = getattr(self, facts)
        return {op: found[number] for number, op in enumerate(program.walk()) if number in found} if found else {}


@dataclass(frozen=True)
class Lesson:
    """One kind of feedback: the field of `Feedback` that it fills, which programs ask for it, and how a module is read.

    A module that is read on `trial` was lowered with stand-ins, is not kept whatever it shows, and is not guarded. `in_layouts` is
    true if the solver reads the feedback.
    """

    fills: str
    asked_by: Callable[[Program, Target], bool]
    learn: Callable[[Program, Layouts, Any, Target], Mapping[int, Any]]
    trial: bool = False
    in_layouts: bool = True


def layouts_need_feedback(program: Program, chip: Target) -> bool:
    """True if the layouts of the program are known only after it was lowered once."""
    return any(lesson.in_layouts and lesson.asked_by(program, chip) for lesson in LESSONS)


def accesses_of(program: Program, module) -> dict[Value, list[TileAccess]]:
    """The accesses of an optimised module to each array of buffers whose accesses the module shows completely."""
    found = buffer_accesses(module)
    return {op.result: [TileAccess(access.layout, access.transposed, access.writes, access.operand) for access in found[number]]
            for number, op in enumerate(program.walk()) if op.name == "local_alloc" and number in found}


def operand_reads(program: Program, text: str) -> dict[Value, TileAccess]:
    """The read of each array of buffers out of which matrix instructions of AMD's take operands, in one way only: as the text of a
    finished module has it."""
    found = {}
    for alloc, accesses in accesses_of(program, finished_module(text)).items():
        reads = {access for access in accesses if access.operand is not None}
        if len(reads) == 1:
            (found[alloc], ) = reads
    return found


def _masked_stores(program: Program) -> dict[int, Op]:
    return {number: op for number, op in enumerate(program.walk()) if op.name == "local_store" and op.mask is not None}


def _store_layouts(program: Program, layouts: Layouts, module, chip: Target) -> dict[int, RegisterLayout]:
    stored = stored_layouts(module)
    return {number: stored[number] for number in _masked_stores(program) if stored.get(number)}


def _buffer_words(program: Program) -> dict[int, Op]:
    """The accesses that have a base and offsets, by number; loads have their layouts from Triton's passes at once."""
    return {number: op for number, op in enumerate(program.walk()) if op.row.rule == "buffered" and not op.row.loads}


def _accesses(program: Program, layouts: Layouts, module, chip: Target) -> dict[int, Access]:
    accessed, unfit = accessed_layouts(module), _unfit(module, chip)
    return {number: Access(accessed[number], number not in unfit) for number in _buffer_words(program) if accessed.get(number)}


def _unfit(module, chip: Target) -> frozenset[int]:
    """The numbers of the copies that the chip cannot do past the registers."""
    if chip.assembly == "ptx":
        return unfit_copies(module)
    return frozenset(copy.number for copy in copies(module)
                     if not fits(copy.pointers, copy.buffer, copy.shape, copy.bits // 8, chip, copy.allocated))


def _unfit_copies(program: Program, layouts: Layouts, module, chip: Target) -> dict[int, bool]:
    unfit = _unfit(module, chip)
    return {number: True for number, op in enumerate(program.walk()) if op.row.copy == "in" and number in unfit}


def _buffer_layouts(program: Program, layouts: Layouts, module, chip: Target) -> dict[int, BankChoice]:
    better = fewer_conflicts(program, layouts.shared, accesses_of(program, module), chip)
    return {number: better[op.result] for number, op in enumerate(program.walk())
            if op.name == "local_alloc" and op.result in better}


def _has_free_buffers(program: Program, chip: Target) -> bool:
    return bool(free_buffers(program))


MASKED_STORES = Lesson("masked_stores", lambda program, chip: bool(_masked_stores(program)), _store_layouts, trial=True)
ACCESSES = Lesson("accesses", lambda program, chip: bool(_buffer_words(program)), _accesses, trial=True)
UNFIT_COPIES = Lesson("copies_by_registers", lambda program, chip: True, _unfit_copies, in_layouts=False)
BANK_CONFLICTS = Lesson("free_buffers", _has_free_buffers, _buffer_layouts)
LESSONS = (MASKED_STORES, ACCESSES, UNFIT_COPIES, BANK_CONFLICTS)
