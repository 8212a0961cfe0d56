"""The stages of a kernel of ours, as data, and the loop that runs them again with the facts of an optimised module.

    record      a JIT function and its specialisation -> a program without layouts       FRONT, once a kernel
    check       the program, without what is unused; or a refusal
    stamp       the program, with time stamps or a watchdog's, if they are asked for
    pad         the program with tiles whose extents are powers of two
    solve       the program and the feedback -> layouts                                  BACK, once more for each lesson
    lower       both -> a TTGIR module
    optimise    the module -> the module after Triton's passes
    learn       the optimised module -> feedback (`compile.feedback`), and back to solve

Input: a `Kernel`, one specialisation of a JIT function, and the `Setting` that it is compiled in. Output: `Kernel.record` gives the
program, `Kernel.to_ttgir` the optimised module, which Triton's backend finishes. An example, with a masked store and a free buffer:

    module = kernel.to_ttgir(chip, options, backend, context)       lowered on trial, lowered, lowered with a swizzled buffer
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...ir import ALONE, LineWarning, Program, collected_warnings
from ...ir.extents import odd_tiles
from ...ir.layouts import PaddedShared
from ...target import Target
from ..analysis.operand_reads import reads_become_operands
from ..analysis.order import may_pipeline, may_sink_reads
from ..collector import resting_collector
from ..constraints.solution import Layouts
from ..constraints.solver import solve_layouts
from ..depth import deep
from ..frontend import record_program
from ..guard import optimise_in_order
from ..launch import check_mesh_target
from ..lowering import lower, needs_slots
from ..passes import check_copies, check_padding, cut_copies, pad_tiles, run_passes, stamp_time, stamp_waits
from ..triton_port.any_shapes import MOST, any_shapes
from ..triton_port.descriptor_slots import place_descriptors
from ..triton_port.differences import finished
from ..triton_port.passes import amd_passes, nvidia_passes, optimise
from .breakpoints import note_breakpoints
from .bug_report import reporting
from .feedback import LESSONS, Feedback, accesses_of
from .refusals import check_descriptor_types, check_plain, refusing

Observer = Callable[[str, Any], None]


@dataclass(frozen=True)
class Setting:
    """The setting of a compilation: the chip, Triton's options and backend for it, an MLIR context once there is one, and an
    observer, which is called with the name and the result of each stage and pass."""

    chip: Target
    options: Any
    backend: Any
    context: Any = None
    observer: Observer | None = None

    def show(self, stage: str, result):
        """`result`, after the observer has seen it."""
        if self.observer:
            self.observer(stage, result)
        return result


@dataclass
class Kernel:
    """One specialisation of a JIT function on its way through the compiler."""

    fn: Any
    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attrs: dict
    cluster: tuple[int, int, int] = ALONE
    stamps: tuple[int, int] | None = None  # (records a lane, one CTA of so many), if a timeline is wanted
    waits: bool = False  # stamps for a watchdog
    program: Program | None = None
    padded: bool = False  # the author's tiles have other extents than those of `program`
    layouts: Layouts | None = None
    reached: Program | None = None  # of the last stage of FRONT that came to its end, for the report of a bug
    warned: list[LineWarning] | None = None  # what was said of the kernel's lines, once it was compiled or found compiled

    @resting_collector()
    @deep()
    def record(self, chip: Target, options, backend, observer: Observer | None = None) -> Program:
        """The stages of FRONT. Their warnings are given once for a kernel, also if its binary was there before."""
        setting = Setting(chip, options, backend, observer=observer)
        program = None
        with reporting(self, chip, options), collected_warnings(aloud=self.warned is None) as self.warned:
            for stage in FRONT:
                self.reached = program = stage(self, setting, program)
        self.program = program
        return program

    def lower(self, chip: Target, options, backend, context, observer: Observer | None = None):
        """A TTGIR module on which none of Triton's passes has run."""
        self.program = pad(self, Setting(chip, options, backend, context, observer), self.program)
        return lowered(self, Setting(chip, options, backend, context, observer), Feedback(), trial=False)

    @resting_collector()
    def to_ttgir(self, chip: Target, options, backend, context, observer: Observer | None = None):
        """All stages: an optimised TTGIR module, lowered once more for each lesson that an optimised one holds."""
        with reporting(self, chip, options):
            return self._to_ttgir(chip, options, backend, context, observer)

    def _to_ttgir(self, chip: Target, options, backend, context, observer: Observer | None):
        setting, module, feedback = Setting(chip, options, backend, context, observer), None, Feedback()
        self.program = pad(self, setting, self.program)
        note_breakpoints(self.program)
        for lesson in LESSONS:
            if not lesson.asked_by(self.program, chip):
                continue
            if module is None:
                module = optimised(self, setting, feedback, lesson.trial)
            learned = lesson.learn(self.program, self.layouts, module, chip)
            feedback = replace(feedback, **{lesson.fills: learned})
            if learned or lesson.trial:
                module = None
        module = optimised(self, setting, feedback, trial=False) if module is None else module
        if chip.backend == "cuda" and any(isinstance(layout, PaddedShared) for layout in self.layouts.shared.values()):
            with refusing(self.fn):
                check_padding(self.program, self.layouts.shared, accesses_of(self.program, module))
        return finished(module)


def record(kernel: Kernel, setting: Setting, _: None) -> Program:
    """A program without layouts."""
    check_descriptor_types(kernel.fn, kernel.signature, setting.chip)
    backend, options = setting.backend, setting.options
    with any_shapes(MOST if setting.chip.binary else sys.maxsize):
        program = record_program(kernel.fn, kernel.signature, kernel.constants, kernel.attrs, options,
                                 backend.get_codegen_implementation(options), backend.get_module_map(), kernel.cluster)
    if odd_tiles(program):
        program = replace(program, uses_words=True)     # Triton's own path has no such tiles
    return setting.show("record", program)


def check(kernel: Kernel, setting: Setting, program: Program) -> Program:
    """The program after all passes. A kernel without our words is Triton's, and stays as it is; but Triton makes TMA copies of its
    descriptors without a look at where they begin."""
    if program.launch_facts.grid_of_clusters:
        check_mesh_target(program.cluster_size, setting.chip)
    with refusing(kernel.fn):
        if program.orchestrates():
            return run_passes(program, setting.chip, setting.observer)
        check_copies(program, setting.chip)
    return program


def stamp(kernel: Kernel, setting: Setting, program: Program) -> Program:
    """The program with the stamps of a watchdog or of a profile, if they are asked for."""
    if not program.orchestrates():
        return program
    with refusing(kernel.fn):
        if kernel.waits:
            return stamp_waits(program, setting.chip)
        return program if kernel.stamps is None else stamp_time(program, setting.chip, *kernel.stamps)


def pad(kernel: Kernel, setting: Setting, program: Program | None) -> Program:
    """The program with tiles of powers of two, as Triton has them; recorded first, if that was not done before."""
    program = program or kernel.record(setting.chip, setting.options, setting.backend, setting.observer)
    if not setting.chip.binary:
        return program
    with refusing(kernel.fn):
        made = pad_tiles(program)
    kernel.padded = kernel.padded or made is not program
    return program if made is program else setting.show("pad", made)


FRONT: tuple[Callable[[Kernel, Setting, Program | None], Program], ...] = (record, check, stamp)


def solve(program: Program, chip: Target, feedback: Feedback | None = None) -> Layouts:
    """The layouts of a program on one of our targets, with the findings of earlier lowerings."""
    feedback = feedback or Feedback()
    choices = {op.result: choice for op, choice in feedback.of_ops(program, "free_buffers").items()}
    accessed = {op: access.layout for op, access in feedback.of_ops(program, "accesses").items()}
    return solve_layouts(program, chip, bank_choices=choices, stored=feedback.of_ops(program, "masked_stores"), accessed=accessed)


def lowered(kernel: Kernel, setting: Setting, feedback: Feedback, trial: bool):
    """A TTGIR module before Triton's passes; `kernel.layouts` are those that it was lowered with."""
    program, chip, options = kernel.program, setting.chip, setting.options
    with refusing(kernel.fn):
        if getattr(options, "num_ctas", 1) > 1:
            check_plain(program, options.num_ctas, chip)
        kernel.layouts = solve(program, chip, feedback)
        name = setting.backend.get_target_name(options) if chip.backend == "cuda" else f"hip:{chip.arch}"
        by_registers = cut_copies(program, chip).union(
            feedback.of_ops(program, "copies_by_registers"),
            (op for op, access in feedback.of_ops(program, "accesses").items() if not access.direct))
        module = lower(program, kernel.layouts, setting.context, name, options, chip, by_registers, trial)
    return setting.show("lower", module)


def optimised(kernel: Kernel, setting: Setting, feedback: Feedback, trial: bool):
    """The module after Triton's passes, under guard unless it is one on trial."""
    program, chip = kernel.program, setting.chip

    def fresh():
        module = lowered(kernel, setting, feedback, trial)
        if needs_slots(program):  # before any pass, which would not know the stand-ins
            module = setting.show("place_descriptors", place_descriptors(module))
        return module

    def listed():
        return (nvidia_passes(chip.arch, setting.options.num_stages, may_pipeline(program), may_sink_reads(program),
                              bool(chip.space("tmem")), reads_become_operands(program))
                if chip.backend == "cuda" else
                amd_passes(chip.arch, reads_become_operands(program), setting.options.matrix_instr_nonkdim, setting.options.kpack))

    return optimise(fresh(), listed(), setting.observer) if trial else optimise_in_order(program, fresh, listed, setting.observer)
