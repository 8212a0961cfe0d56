"""One way to orchestrate a launch: the passes, the text of the module, and the kernel that is recorded from that text.

Input: a `Plain` launch and a `Plan`. Output: a `Written`. For example:

    one = written(plain, Plan(consumers=2))
    one.text, one.kernel            a module with the kernel and what the host does for it; the kernel, as imported

What is compiled, checked, timed and launched is the kernel that was recorded from the text. It has to equal the passes'
program, up to names and lines: else there is no kernel, and `wrong` has the first difference, which is a mistake of mimw's.
`refused` is what the compiler says of a plan that breaks a rule of the language or does not fit.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from types import ModuleType
from typing import Any

from ...compiler.analysis.remarks import Remark
from ...compiler.analysis.same_program import difference
from ...compiler.analysis.written import APART
from ...compiler.orchestrate.authors_tiles import authors_tiles
from ...compiler.orchestrate.box_host import host_parts, host_source
from ...compiler.orchestrate.boxes import Lifted, lifted
from ...compiler.orchestrate.boxes_of_groups import grouped
from ...compiler.orchestrate.branches import Taken, taken
from ...compiler.orchestrate.delay import delayed
from ...compiler.orchestrate.emission import orchestrated
from ...compiler.orchestrate.gathers import gathered, turned
from ...compiler.orchestrate.needed_ops import needed
from ...compiler.orchestrate.persist import Persistent, persistent, tile_loop
from ...compiler.orchestrate.plan import Plan
from ...compiler.orchestrate.remainders import with_remainders
from ...compiler.orchestrate.rings import Rings
from ...compiler.orchestrate.scales import small_scales
from ...compiler.orchestrate.scales_ahead import scales_ahead
from ...compiler.orchestrate.small_loads import loaded_ahead
from ...compiler.orchestrate.tasks import Orchestrated
from ...compiler.orchestrate.text import module_text
from ...compiler.orchestrate.tile_orders import Order
from ...compiler.orchestrate.together import together
from ...compiler.orchestrate.wide_stores import Widened, widened
from ...compiler.passes.accumulate_dots import accumulate_dots
from ...compiler.triton_port.codegen import CompilationError
from ...compiler.triton_port.enumerations import enumeration_member
from ...compiler.triton_port.runtime import descriptors_from, gpu_is_active, keep_file, multiprocessors
from ...errors import MimwError, NotYet, OutOfSharedMemory
from ...ir import Op, Program, verify
from ...runtime.simulate import Launch, prepare
from ...runtime.text_modules import text_module
from ...target import Target
from .guards import overlap
from .inputs import apart_by_address
from .plain import Plain
from .slots import beyond, fewer_slots
from .sum_turns import enough_turns
from .tiles import short_tiles


@dataclass(frozen=True)
class Written:
    """A plan carried out. `kernel` is None if there is nothing to hand over, or if the text does not say what the passes made.
    `tiles` is what became of the grid, None before that is known."""

    plan: Plan
    plain: Plain
    made: Orchestrated
    remarks: tuple[Remark, ...] = ()
    text: str = ""
    module: ModuleType | None = None
    wrong: str = ""
    refused: str = ""
    is_delayed: bool = False
    tiles: Persistent | None = None
    is_fitted: bool = True

    @property
    def kernel(self) -> Any:
        return None if self.module is None or self.wrong or self.refused else getattr(self.module, self.plain.name)

    @property
    def is_persistent(self) -> bool:
        """True if programs take tiles in turn."""
        return self.tiles is not None and bool(self.tiles.params)

    @property
    def num_warps(self) -> int:
        return self.plan.warps_of(self.plain.num_warps)

    @property
    def options(self) -> dict[str, int]:
        """The options of a launch of this kernel: warps, and the registers a thread that so many programs leave it."""
        start = self.made.program.launch_facts.registers if self.made.program is not None else None
        return {"num_warps": self.num_warps} | ({} if start is None else {"maxnreg": start})

    @property
    def tiles_each(self) -> int:
        """The tiles that a program has to have at least, so that a launch shows what comes behind a tile: of a consumer its next
        one."""
        return self.plan.consumers + 1 if self.plan.tiles_in_turn else 2

    @cached_property
    def short_tiles(self) -> int:
        """The tiles that `tiles.short_tiles` counts, once for all steps of a proof."""
        return short_tiles(self)

    def programs(self, grid: tuple[int, ...], most: int | None = None) -> tuple[int, ...]:
        """The grid of this kernel for a grid of the plain one. One whose programs take tiles in turn has at most as many as the
        chip's multiprocessors hold, one each unless the plan says more, or `most`."""
        if not self.is_persistent:
            return grid
        each = self.plan.programs or 1
        return (min(prod(map(int, grid)), most or each * (self.plain.chip.multiprocessors or 1)), )

    def arguments(self, plain: Plain | None = None, grid: tuple[int, ...] | None = None) -> tuple:
        """The arguments of the kernel for a launch of the plain one over `grid`, by default the one that it was made of."""
        plain = plain or self.plain
        given = (plain.arguments[name] for name in self.plain.parameters)      # also a number that is 1 in that launch alone
        return self.module.arguments(grid or plain.launch.grid, *given)

    def given(self, args: tuple, meta: Mapping[str, Any]) -> list[Any]:
        """The arguments of a launch of the plain kernel that its program takes, in their order."""
        named = dict(zip(self.plain.launch.specialisation.fn.arg_names, args)) | dict(meta)
        return [named[name] for name in self.plain.parameters]

    def why_plain(self, grid: tuple[int, ...], args: tuple, meta: Mapping[str, Any]) -> str:
        """The reason for which a launch of this specialisation takes the plain kernel; "" if it may take this one."""
        given = self.given(args, meta)
        return self.module.fits(grid, *given) or overlap(dict(zip(self.plain.parameters, given)), self.made.apart)

    def runs(self, grid: tuple[int, ...], args: tuple, meta: Mapping[str, Any], **more: Any) -> Callable[[], Any]:
        """A function that launches this kernel in place of the plain one; `more` are keywords of the simulator's launches."""
        given = self.module.arguments(grid, *self.given(args, meta))
        launch = self.kernel[self.programs(grid, (self.plan.programs or 1) * device_programs(self.plain.chip))]
        return self.with_memory(lambda: launch(*given, **self.options, **more))

    def with_memory(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        """A launch of this kernel on a GPU, with memory for descriptors that the plain kernel does not make."""
        if not (gpu_is_active() and self.made.program.named("descriptor_slots")):
            return launch

        def run(*values: Any) -> Any:
            with descriptors_from(_memory):
                return launch(*values)
        return run

    def launch(self, plain: Plain | None = None, grid: tuple[int, ...] | None = None, most: int | None = None) -> Launch:
        """The launch in place of one of the plain kernel over `grid`, made ready for the simulator; of a kernel whose programs
        take tiles in turn with at most so many programs, by default as many as the multiprocessors hold."""
        plain = plain or self.plain
        kernel, grid = getattr(self.module, plain.name), grid or plain.launch.grid
        return prepare(kernel, self.programs(grid, most), self.arguments(plain, grid), dict(self.options), plain.chip.name,
                       memory=plain.memory)


def _memory(size: int, alignment: int, stream: int | None) -> Any:
    """Memory of the device for descriptors, which the plain kernel may not need: torch's, as its tensors are."""
    torch = sys.modules["torch"]
    return torch.empty(size, dtype=torch.int8, device="cuda")


def device_programs(chip: Target) -> int:
    """The number of multiprocessors: of the GPU in use, or without one of the chip."""
    return multiprocessors() if gpu_is_active() else chip.multiprocessors or 1


def written(plain: Plain, plan: Plan, fits: bool = True) -> Written:
    """The plan carried out. Where it leaves the slots of pipes open, there are as many as fit beside all scratch of the
    compiler's, and fewer than the launch has rounds (`slots.py`). The scratch takes half of the time to be known: without `fits`
    nobody asks for it, and `fitted` does later."""
    try:
        return _with_slots(plain, plan, fits)
    except Exception as error:      # of any kind: the plain kernel compiles, so that it is ours, and said as a line of the report
        wrong = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        return Written(plan, plain, Orchestrated(None, Rings([], set())), wrong=wrong)


def fitted(one: Written) -> Written:
    """The same with as many slots as fit, of one that was written without that."""
    return one if one.is_fitted or one.kernel is None else written(one.plain, one.plan)


def _with_slots(plain: Plain, given: Plan, fits: bool) -> Written:
    """The plan carried out, with what it left open decided: another process that has it writes the same kernel, whatever it
    launches first."""
    plan = given if given.branches is not None else replace(given, branches=_takes_branches(plain))
    plan = plan if plan.assume is not None else replace(plan, assume=plan.boxes and _may_assume(plain, plan))
    one = _written(plain, plan)
    while one.kernel is not None and given.stages is None and (fewer := fewer_slots(one, fits)):
        stages, late = _slots(one)
        fewer = stages if late > stages else fewer      # first without the slot that a late product has more
        one = _written(plain, replace(plan, stages=fewer, late_stages=fewer))
    if fits and one.kernel is not None and given.sums is None and not enough_turns(one):
        one = _written(plain, replace(one.plan, sums=1))
    if one.kernel is None:
        return one
    if not fits:
        return replace(one, plan=replace(one.plan, stages=given.stages, late_stages=given.late_stages), is_fitted=False)
    if more := beyond(one):
        return replace(one, refused=f"{OutOfSharedMemory.__name__}: {plan.programs} programs do not fit on a multiprocessor, "
                                    f"of which each has {more:,} bytes of shared memory too much")
    stages, late = _slots(one)
    decided = dict(stages=stages or None, late_stages=late if late > stages else None, sums=one.made.sums)
    return replace(one, plan=replace(one.plan, **decided))


def _slots(one: Written) -> tuple[int, int]:
    """(slots of pipes, and of the pipe that has the most), 0 of neither."""
    found = [ring.stages for ring in one.made.rings.roots if not ring.fixed]
    return min(found, default=0), max(found, default=0)


def _written(plain: Plain, plan: Plan) -> Written:
    boxes = _boxes(plain, plan)
    program, remarks = _groups(plain, plan, boxes)
    program = turned(program, plain.chip) if plan.gathers else program
    program, late, apart = accumulate_dots(needed(small_scales(program))), frozenset(), frozenset()
    tiles = Persistent(program, ())
    if plan.persistent:
        tiles = persistent(program, Order(plan.across, plan.band, plan.last_first))
        program, remarks = tiles.program, (*remarks, *tiles.remarks)
        plan = replace(plan, persistent=bool(tiles.params), band=tiles.order.band)
    if plan.delayed:
        behind = delayed(program)
        program, remarks, late, apart = behind.program, (*remarks, *behind.remarks), behind.late, behind.apart
        verify(program)
    settled: frozenset[Op] = frozenset()
    if plan.together > 1:
        several = together(program, plan.together)
        if several.program is program:
            return _written(plain, replace(plan, together=1))
        program, remarks, settled = several.program, (*remarks, *several.remarks), several.settled
        verify(program)
    for outer in (False, True) if plan.ahead else ():
        shared = None if not plan.tiles_in_turn else tile_loop(program) if plan.persistent else authors_tiles(program)
        early = loaded_ahead(program, outer, shared)
        program, remarks, apart = scales_ahead(early.program), (*remarks, *early.remarks), apart | early.apart
        verify(program)
    loop = tile_loop(program) if plan.persistent else authors_tiles(program) if plan.tiles_in_turn else None
    made = orchestrated(program, plan, plain.chip, late, () if loop is None else (loop, ), settled)
    remarks = (*remarks, *made.remarks)
    if plan.together > 1 and any(ring.stages < 2 for ring in made.rings.roots if not ring.fixed):   # two chunks are held
        return _written(plain, replace(plan, together=1))
    if plan.transform and not made.rings.computed:
        return _written(plain, replace(plan, transform=0))
    made = replace(made, apart=made.apart | apart | {(one, other) for one, other, _ in boxes.apart})
    if made.program is None:
        return Written(plan, plain, made, remarks)
    verify(made.program)
    imports, host = host_parts(boxes, made.blocks, tiles.params)
    about = f"{plain.name}, orchestrated by mimw.\n\n{plain.note}Plan: {plan.text()}\n"
    try:
        text = module_text(made.program, plain.name, host, about, imports, (*plain.unspecialised, *tiles.params),
                           plain.annotated, made.notes)
    except NotYet as error:
        return Written(plan, plain, replace(made, program=None), (*remarks, Remark(error.message, error.sites[0])))
    one = Written(plan, plain, made, remarks, text, imported(text, plain.name), is_delayed=bool(late),
                  tiles=tiles)
    try:
        if misfit := one.why_plain(plain.launch.grid, (), plain.arguments):
            return replace(one, refused=misfit)
        found = difference(made.program, one.launch().recorded)
    except (MimwError, CompilationError) as error:      # the language's own rules, asked once more of the text
        return replace(one, refused=" ".join(str(error).split("\n")[0].split()))
    return one if found is None else replace(one, wrong=f"the text is another program: {found}")


def may_gather(plain: Plain) -> bool:
    """True if cp.async can copy a load that is no box."""
    plan = Plan(branches=_takes_branches(plain))
    program = _aligned(_boxes(plain, replace(plan, assume=_may_assume(plain, plan))).program, plain)
    return any(refused is None for refused in gathered(program, plain.chip).values())


def _aligned(program: Program, plain: Plain) -> Program:
    """The program with what its launch says of arguments: which ones 16 divides. Another launch takes the plain kernel
    (`guards`)."""
    attrs = plain.launch.specialisation.attrs
    return replace(program, params=tuple(replace(param, attrs=(*param.attrs, *map(tuple, attrs.get(param.path, ()))))
                                         for param in program.params))


def _promised(program: Program, plain: Plain) -> Program:
    """The program of a launch whose caller names the arrays that it reaches by addresses: those of each argument are apart."""
    if not plain.memory:
        return program
    names, own = plain.launch.specialisation.fn.arg_names, apart_by_address(plain.arguments, plain.memory)
    return replace(program, params=tuple(
        replace(param, attrs=(*param.attrs, (APART, True))) if names[param.path[0]] in own else param for param in program.params))


def _boxes(plain: Plain, plan: Plan) -> Lifted:
    """The program with boxes, under a plan that says what they may assume."""
    program = _promised(with_remainders(plain.program), plain)
    branches = taken(program) if plan.branches else Taken(program)
    boxes = _lifted(branches.program, plain, plan)
    return replace(boxes, assumed=(*boxes.assumed, *branches.assumed), remarks=(*boxes.remarks, *branches.remarks))


def _lifted(program: Program, plain: Plain, plan: Plan) -> Lifted:
    if not plan.boxes:
        return lifted(program, plain.chip, "none", False)
    return lifted(program, plain.chip, unsigned=_unsigned(plain), assume=bool(plan.assume), tiles=plan.persistent)


def _groups(plain: Plain, plan: Plan, boxes: Lifted) -> tuple[Program, tuple[Remark, ...]]:
    """The program with descriptors that the kernel makes itself, and the remarks on its loads and stores."""
    program, beside = _aligned(boxes.program, plain), []
    if plan.gathers:
        beside = [op for op, refused in gathered(program, plain.chip).items() if refused is None]
    if not plan.boxes or plan.gathers and not beside:
        return program, boxes.remarks
    found = grouped(program, plain.chip, enumeration_member("PADDING_OPTION", "PAD_ZERO"), _unsigned(plain), beside)
    wide = widened(found.program) if found.program is not program else Widened(program)
    remarks = *found.remarks, *wide.remarks
    said = {one.site for one in remarks}
    return wide.program, (*(one for one in boxes.remarks if one.site not in said), *remarks)


def _unsigned(plain: Plain) -> list[str]:
    """The arguments whose elements are unsigned integers."""
    return [name for name, type_ in plain.launch.specialisation.signature.items() if str(type_).startswith("*u")]


def _may_assume(plain: Plain, plan: Plan) -> bool:
    """True if the launch keeps to all that boxes assume, with more of them."""
    boxes = _boxes(plain, replace(plan, assume=True))
    return bool(boxes.descriptors) and _keeps(plain, boxes)


def _takes_branches(plain: Plain) -> bool:
    """True if the launch takes the branches that may be taken once."""
    boxes = _boxes(plain, Plan(boxes=False, branches=True))
    return bool(boxes.assumed) and _keeps(plain, boxes)


def _keeps(plain: Plain, boxes: Lifted) -> bool:
    """True if the launch keeps to what is assumed."""
    module: dict[str, Any] = {}
    exec(host_source(boxes), module)
    return not module["fits"](plain.launch.grid, *plain.given)


def imported(text: str, name: str) -> ModuleType:
    """The module of a text, which lies in Triton's cache on disk, since a kernel's source is read from its file."""
    path = keep_file(hashlib.sha256(text.encode()).hexdigest(), f"{name}.py", text)
    return text_module(path, name, text)


def reasons(remarks: Sequence[Remark]) -> list[str]:
    """Remarks on the plain kernel's lines, in their order."""
    return [f"line {one.site.line}: {one.message}" for one in sorted(remarks, key=lambda one: one.site.line)]
