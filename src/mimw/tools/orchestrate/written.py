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
import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any

from ...compiler.analysis.remarks import Remark
from ...compiler.analysis.same_program import difference
from ...compiler.orchestrate.box_host import host_parts, host_source
from ...compiler.orchestrate.boxes import Lifted, lifted
from ...compiler.orchestrate.delay import delayed
from ...compiler.orchestrate.emission import orchestrated
from ...compiler.orchestrate.needed_ops import needed
from ...compiler.orchestrate.persist import Persistent, persistent, tile_loop
from ...compiler.orchestrate.plan import Plan
from ...compiler.orchestrate.remainders import with_remainders
from ...compiler.orchestrate.rings import Rings
from ...compiler.orchestrate.tasks import Orchestrated
from ...compiler.orchestrate.text import module_text
from ...compiler.passes.accumulate_dots import accumulate_dots
from ...compiler.triton_port.codegen import CompilationError
from ...compiler.triton_port.runtime import gpu_is_active, keep_file, multiprocessors
from ...errors import MimwError, NotYet
from ...ir import verify
from ...runtime.simulate import Launch, prepare
from ...target import Target
from .guards import overlap
from .plain import Plain
from .slots import fewer_slots
from .sum_turns import enough_turns


@dataclass(frozen=True)
class Written:
    """A plan carried out. `kernel` is None if there is nothing to hand over, or if the text does not say what the passes made."""

    plan: Plan
    plain: Plain
    made: Orchestrated
    remarks: tuple[Remark, ...] = ()
    text: str = ""
    module: ModuleType | None = None
    wrong: str = ""
    refused: str = ""
    is_delayed: bool = False
    is_persistent: bool = False

    @property
    def kernel(self) -> Any:
        return None if self.module is None or self.wrong or self.refused else getattr(self.module, self.plain.name)

    @property
    def num_warps(self) -> int:
        return self.plan.warps_of(self.plain.num_warps)

    def programs(self, grid: tuple[int, ...], most: int | None = None) -> tuple[int, ...]:
        """The grid of this kernel for a grid of the plain one. One whose programs take tiles in turn has at most one for each
        multiprocessor of the chip, or `most`."""
        if not self.is_persistent:
            return grid
        return (min(prod(map(int, grid)), most or self.plain.chip.multiprocessors or 1), )

    def arguments(self, plain: Plain | None = None, grid: tuple[int, ...] | None = None) -> tuple:
        """The arguments of the kernel for a launch of the plain one over `grid`, by default the one that it was made of."""
        plain = plain or self.plain
        return self.module.arguments(grid or plain.launch.grid, *plain.given)

    def given(self, args: tuple, meta: Mapping[str, Any]) -> list[Any]:
        """The arguments of a launch of the plain kernel that its program takes, in their order."""
        named = dict(zip(self.plain.launch.specialisation.fn.arg_names, args)) | dict(meta)
        return [named[name] for name in self.plain.parameters]

    def why_plain(self, grid: tuple[int, ...], args: tuple, meta: Mapping[str, Any]) -> str:
        """The reason for which a launch of this specialisation takes the plain kernel; "" if it may take this one."""
        given = self.given(args, meta)
        return self.module.fits(grid, *given) or overlap(dict(zip(self.plain.parameters, given)), self.made.apart)

    def runs(self, grid: tuple[int, ...], args: tuple, meta: Mapping[str, Any]) -> Callable[[], Any]:
        """A function that launches this kernel in place of the plain one."""
        given = self.module.arguments(grid, *self.given(args, meta))
        launch = self.kernel[self.programs(grid, device_programs(self.plain.chip))]
        return lambda: launch(*given, num_warps=self.num_warps)

    def launch(self, plain: Plain | None = None, grid: tuple[int, ...] | None = None, most: int | None = None) -> Launch:
        """The launch in place of one of the plain kernel over `grid`, made ready for the simulator; of a kernel whose programs
        take tiles in turn with at most so many programs, by default one for each multiprocessor."""
        plain = plain or self.plain
        kernel, options, grid = getattr(self.module, plain.name), {"num_warps": self.num_warps}, grid or plain.launch.grid
        return prepare(kernel, self.programs(grid, most), self.arguments(plain, grid), options, plain.chip.name)


def device_programs(chip: Target) -> int:
    """The number of multiprocessors: of the GPU in use, or without one of the chip."""
    return multiprocessors() if gpu_is_active() else chip.multiprocessors or 1


def written(plain: Plain, plan: Plan) -> Written:
    """The plan carried out. Where it leaves the slots of pipes open, there are as many as fit beside all scratch of the
    compiler's, and fewer than the launch has rounds (`slots.py`)."""
    try:
        return _with_slots(plain, plan)
    except Exception as error:      # of any kind: the plain kernel compiles, so that it is ours, and said as a line of the report
        wrong = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        return Written(plan, plain, Orchestrated(None, Rings([], set())), wrong=wrong)


def _with_slots(plain: Plain, given: Plan) -> Written:
    """The plan carried out, with what it left open decided: another process that has it writes the same kernel, whatever it
    launches first."""
    plan = given if given.assume is not None else replace(given, assume=given.boxes and _may_assume(plain))
    one = _written(plain, plan)
    while one.kernel is not None and given.stages is None and (fewer := fewer_slots(one)):
        one = _written(plain, replace(plan, stages=fewer))
    if one.kernel is not None and given.sums is None and not enough_turns(one):
        one = _written(plain, replace(one.plan, sums=1))
    stages = max((ring.stages for ring in one.made.rings.roots if not ring.once), default=None)
    return replace(one, plan=replace(one.plan, stages=stages, sums=one.made.sums)) if one.kernel is not None else one


def _written(plain: Plain, plan: Plan) -> Written:
    boxes = _boxes(plain, plan)
    program, remarks, late, apart = accumulate_dots(needed(boxes.program)), boxes.remarks, frozenset(), frozenset()
    tiles = Persistent(program, ())
    if plan.persistent:
        tiles = persistent(program)
        program, remarks, plan = tiles.program, (*remarks, *tiles.remarks), replace(plan, persistent=bool(tiles.params))
    if plan.delayed:
        behind = delayed(program)
        program, remarks, late, apart = behind.program, (*remarks, *behind.remarks), behind.late, behind.apart
        verify(program)
    made = orchestrated(program, plan, plain.chip, late, (tile_loop(program), ) if plan.persistent else ())
    remarks = (*remarks, *made.remarks)
    made = replace(made, apart=made.apart | apart)
    if made.program is None:
        return Written(plan, plain, made, remarks)
    verify(made.program)
    imports, host = host_parts(boxes, made.blocks, tiles.params)
    about = f"{plain.name}, orchestrated by mimw.\n\nPlan: {plan.text()}\n"
    try:
        text = module_text(made.program, plain.name, host, about, imports, (*plain.unspecialised, *tiles.params),
                           made.notes)
    except NotYet as error:
        return Written(plan, plain, replace(made, program=None), (*remarks, Remark(error.message, error.sites[0])))
    one = Written(plan, plain, made, remarks, text, imported(text, plain.name), is_delayed=bool(late),
                  is_persistent=plan.persistent)
    try:
        if misfit := one.why_plain(plain.launch.grid, (), plain.arguments):
            return replace(one, refused=misfit)
        found = difference(made.program, one.launch().recorded)
    except (MimwError, CompilationError) as error:      # the language's own rules, asked once more of the text
        return replace(one, refused=" ".join(str(error).split("\n")[0].split()))
    return one if found is None else replace(one, wrong=f"the text is another program: {found}")


def _boxes(plain: Plain, plan: Plan) -> Lifted:
    """The program with boxes, under a plan that says what they may assume."""
    program = with_remainders(plain.program)
    if not plan.boxes:
        return lifted(program, plain.chip, "none", False)
    unsigned = [name for name, type_ in plain.launch.specialisation.signature.items() if str(type_).startswith("*u")]
    return lifted(program, plain.chip, unsigned=unsigned, assume=bool(plan.assume))


def _may_assume(plain: Plain) -> bool:
    """True if the launch keeps to all that boxes assume, with more of them."""
    boxes = _boxes(plain, Plan(assume=True))
    if not boxes.descriptors:
        return False
    module: dict[str, Any] = {}
    exec(host_source(boxes), module)
    return not module["fits"](plain.launch.grid, *plain.given)


def imported(text: str, name: str) -> ModuleType:
    """The module of a text, which lies in Triton's cache on disk, since a kernel's source is read from its file."""
    path = keep_file(hashlib.sha256(text.encode()).hexdigest(), f"{name}.py", text)
    module = ModuleType(name)
    module.__file__ = path
    linecache.checkcache(path)
    exec(compile(text, path, "exec"), vars(module))
    return module


def reasons(remarks: Sequence[Remark]) -> list[str]:
    """Remarks on the plain kernel's lines, in their order."""
    return [f"line {one.site.line}: {one.message}" for one in sorted(remarks, key=lambda one: one.site.line)]
