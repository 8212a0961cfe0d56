"""`mimw.simulate`: run a kernel on the CPU, the same program with the same source lines, without a GPU.

Input: a kernel, a grid, and numpy arrays or torch CPU tensors and numbers. Output: a `Run`; the arrays are written. For
example:

    run = mimw.simulate(double, (2, ), x, 256, BLOCK=128)
    run.cycles, x[:3]                               about 533, and [2. 2. 2.] where x held ones
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..compiler.depth import deep
from ..compiler.launch import (
    ALONE,
    CLUSTERS,
    check_cluster_target,
    check_grid,
    check_numbers,
    extents_of,
    grid_extents,
)
from ..compiler.passes import run_passes
from ..compiler.pipeline import Kernel, gpu_target, refusing, reporting, seen_by
from ..compiler.triton_port.no_gpu import answer_for
from ..compiler.triton_port.runtime import is_gluons, make_backend
from ..errors import Deadlock, SimulationError, SimulatorMisuse
from ..ir import Program
from ..ir.shown import Shown
from ..ir.switches import switched_on
from ..ir.world import at_rank
from ..report import chrome_trace, timeline_svg
from ..simulator import Hooks, Run, Writers, cut_short, run, watching
from ..target import Target, asked, asking, wanted
from .breakpoints import run_to_breakpoints, stops
from .call import resolve, tool, unknown_keyword
from .fits import AsCompiled, as_compiled
from .launch import Launch, memories, memory_of, specialised
from .results import expectations, first_wrong, wrong_result
from .ttgir_threads import threads_named


@dataclass(frozen=True)
class SimulatedRun(Run, Shown):
    """The result of `mimw.simulate`: the run, and for its page the `program` that ran by the rules of `target`, and in
    `launched` its grid and seed. `error` is the error that ended the run, of which there is then nothing but the page that
    MIMW_TIMELINE asks for. `memory()` is the shared memory of the kernel as it would be compiled."""

    name: str = field(default="", compare=False)
    launched: tuple[str, ...] = field(default=(), compare=False)
    program: Program | None = field(default=None, repr=False, compare=False)
    target: Target | None = field(default=None, repr=False, compare=False)
    error: SimulationError | None = field(default=None, repr=False, compare=False)
    memory: Callable[[], AsCompiled | None] = field(default=lambda: None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name}, {', '.join(self.launched)}: {self.summary}"

    @property
    def summary(self) -> str:
        """A sentence on a run that came to its end."""
        return f"{sum(self.counts.values())} ops in {self.cycles:,.0f} abstract cycles, nothing wrong in this run"

    def _page(self):
        from ..report.page import Note, Page
        from ..report.table import Table

        memory = self.memory()
        shared = {} if memory is None else {"rows": memory.rows, "shared": memory.total}
        if (error := self.error) is not None:
            note = Note(type(error).__name__, error.message, error.sites, error.hint, f"Shown by {', '.join(self.launched[1:])}.",
                        len(error.sites) if isinstance(error, Deadlock) else 2)
            return Page(self.name, self.launched, "ended in an error", False, (note, ), self.program, self.target, self.trace,
                        self.cycles, **shared)
        ops = Table(("op", "ran"), tuple(sorted(self.counts.items(), key=lambda item: -item[1])), ("ran", ))
        return Page(self.name, (*self.launched, f"{self.cycles:,.0f} cycles"), program=self.program, target=self.target,
                    trace=self.trace, no_trace="This run kept no timeline: mimw.simulate(..., trace=True) does.",
                    worked=dict(self.lines), **shared, tables=(("Operations", ops), ))


@dataclass(frozen=True)
class SimulatedLaunch(SimulatedRun):
    """The result of `kernel[grid](...)` on the simulator: the run, and the kernel that a GPU would have run, compiled when
    somebody asks for it."""

    compile: Callable[[], Any] = field(default=lambda: None, repr=False, compare=False)

    @functools.cached_property
    def kernel(self):
        """Triton's compiled kernel for MIMW_TARGET, by default sm_90a."""
        return self.compile()

    @property
    def asm(self):
        """The text or binary after each stage: "ttgir", "ptx", ..."""
        return self.kernel.asm

    @property
    def metadata(self):
        return self.kernel.metadata


# What takes launches in place of the simulator: `triton.testing.do_bench` predicts them.
instead: ContextVar[Callable[[Launch, Target], Any] | None] = ContextVar("instead", default=None)


@tool
def simulate(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
             gpus: int | Any = None, seed: int | tuple | Any = None, trace: bool | Any = False, races: bool | Any = None,
             memory: Sequence[Any] | Any = (), expected: Any = None, tolerance: Any = None, **meta: Any) -> SimulatedRun:
    """Run `kernel` over `grid` on the simulator. Arrays are written as a launch would write them.

    args:      kernel   decorated with `mimw.jit`; an autotuned one runs its first configuration unless `meta` says more. A kernel
                        of Gluon's is compiled by Gluon, and what came out is run (docs/TTGIR.md)
               grid     1 to 3 ints, or a function of the arguments giving them
               args     numpy arrays, torch CPU tensors, numbers, tensor descriptors (`mimw.TensorDescriptor` takes numpy)
               target   the chip whose rules hold, by default MIMW_TARGET or sm_90a: its functions and limits; and what host code
                        that the launch calls (a grid, a heuristic, a `constexpr_function`) learns of Triton's driver
               num_warps, num_stages   as for a launch: warps of the default task, and stages of Triton's pipelining; by default an
                        autotuned kernel's, or Triton's 4 and 3
               gpus     how many GPUs run the launch side by side, each over the whole grid; by default as many as the `mimw.World`
                        of the arguments has, else 1. Arrays are then a World's, one for each rank (docs/DISTRIBUTED.md)
               seed     picks the interleaving of tasks and the landing times of copies; same seed, same run;
                        by default MIMW_SEED or 0; a tuple is a schedule as `mimw.check` finds them
               trace    keep a timeline in the result's `.trace`; with MIMW_TIMELINE=PATH (.html, .svg, .json) also drawn there
               races    also look for accesses that nothing orders, whether or not they went wrong in this run;
                        by default MIMW_RACES or False
               memory   arrays and tensors that are no arguments, which the kernel reaches by addresses that it reads, as from a
                        table of `data_ptr()`s (int64 or uint64); on several GPUs a World's arrays. Their memory is read and
                        written as that of arguments. An address in no array is an error. With MIMW_MEMORY=tensors, as under
                        `mimw run`, every tensor of torch that is alive and on the CPU is memory of a launch on one GPU, too
               expected, tolerance   what arrays hold afterwards, as for `mimw.Case`; nothing is compared by default
               meta     compile-time parameters and launch options (ctas_per_cga, maxnreg, ...). Where the kernel has a parameter
                        `seed`, `trace`, `races`, `target`, `gpus`, `memory`, `expected` or `tolerance`, the keyword is the kernel's
    returns:   SimulatedRun, with cycles, op counts and the trace; `save_html` writes its page
    errors:    SimulationError and its kinds, each naming tasks and lines: a WrongResult where an array is not as expected;
               triton.CompilationError

    A kernel that says `breakpoint()` stops there, at the prompt of the debugger (docs/DEBUGGER.md).
    """
    launch = prepare(kernel, grid, args, meta, target, gpus, memory)
    seed = int(os.environ.get("MIMW_SEED") or 0) if seed is None else seed
    races = switched_on("MIMW_RACES") if races is None else races
    picture = os.environ.get("MIMW_TIMELINE")
    chip = wanted(target)
    if (takes := instead.get()) is not None:
        return takes(launch, chip)
    about = dict(name=launch.name, launched=(f"simulated for {chip.name}", f"grid {launch.grid}", f"seed {seed}"),
                 program=launch.program, target=chip,
                 memory=functools.partial(as_compiled, launch.specialisation, launch.program))
    machines: list = []
    wanted_results = expectations(expected, tolerance, launch)
    writers = Writers() if wanted_results else None
    try:
        with _seen(machines) if picture else nullcontext(), reporting(_kernel(launch), chip, launch.specialisation.options):
            if stops(launch.program):
                found = run_to_breakpoints(launch, seed=seed, trace=trace or bool(picture), races=races, expected=wanted_results)
            else:
                with threads_named(launch.reading):
                    found = run(launch.program, launch.grid, launch.values, seed=seed, trace=trace or bool(picture), races=races,
                                gpus=launch.gpus, memory=launch.memory, hooks=Hooks(writers=writers))
                if wanted_results and (wrong := first_wrong(wanted_results)) is not None:
                    raise wrong_result(wrong, launch.program, writers)
    except SimulationError as error:
        if machines:
            until, at = cut_short(machines[0])
            _draw(SimulatedRun(at, Counter(), until, **about, error=error), picture)
        raise
    done = SimulatedRun(**vars(found), **about)
    if picture:
        _draw(done, picture)
    return done


def _kernel(launch: Launch) -> Kernel:
    """The kernel of a launch, for the report of a bug."""
    one = launch.specialisation
    return Kernel(one.fn, one.signature, one.constants, one.attrs, program=launch.program)


@contextmanager
def _seen(machines: list) -> Iterator[None]:
    """The machines of runs inside are put into the list, and whoever watches already sees them, too."""
    before = watching.get()

    def watch(machine) -> None:
        machines.append(machine)
        if before is not None:
            before(machine)

    token = watching.set(watch)
    try:
        yield
    finally:
        watching.reset(token)


def _draw(done: SimulatedRun, path: str) -> None:
    """Write the file that MIMW_TIMELINE asks for: by the suffix of the path the page, or the timeline alone."""
    draw = {".svg": timeline_svg, ".json": chrome_trace}.get(Path(path).suffix)
    try:
        if draw is None:
            done.save_html(path)
        else:
            Path(path).write_text(draw(done.trace, " ".join([done.name, "on", *done.launched[1:]])))
    except OSError as error:
        raise SimulatorMisuse(f"MIMW_TIMELINE: the timeline cannot be written to {path}: {error.strerror}") from error


@dataclass
class Prepared:
    """The number of launches that this process has made ready: a command that finds none has done nothing."""

    launches: int = 0


prepared = Prepared()


def prepare(kernel, grid, args, meta: dict[str, Any], target: str | None = None, gpus: int | None = None,
            memory: Sequence[Any] = ()) -> Launch:
    """Make a launch ready for `simulate`; arguments and errors as there. Host code that is called on the way, as a grid that is
    a function, sees the target that was asked for."""
    prepared.launches += 1
    chip = wanted(target)
    answer_for(_asked)
    with asking(chip):
        return _prepared(kernel, grid, args, meta, chip, gpus, memory)


def _asked():
    """The target of the launch or compilation under way as Triton names it."""
    chip = asked()
    return None if chip is None else gpu_target(chip)


def _prepared(kernel, grid, args, meta: dict[str, Any], chip: Target, wanted: int | None, memory: Sequence[Any]) -> Launch:
    kernel, args, meta = resolve(kernel, args, meta)
    memory = memory_of(meta, kernel.arg_names) or memory
    if is_gluons(kernel):
        from .ttgir import gluon_launch
        return gluon_launch(kernel, grid, args, meta, chip, wanted, memory)
    specialisation, arguments, values, gpus = specialised(kernel, args, meta, chip, wanted)
    options = specialisation.options
    program, recorded = _program(specialisation.fn, specialisation.signature, specialisation.constants, options, chip)
    first = {name: at_rank(value, 0) for name, value in arguments.items()}
    extents = grid_extents(extents_of(grid, first))
    if program.launch_facts.grid_of_clusters:
        extents = (extents[0] * program.cluster_size, *extents[1:])
    check_grid(grid_extents(extents, chip.max_grid), program.cluster)
    check_grid(extents, options.get("preferred_ctas_per_cga"), "preferred_ctas_per_cga")
    return Launch(specialisation.fn.__name__, program, extents, values, recorded, specialisation, gpus,
                  memories(memory, program, gpus), arguments)


@deep()
def _program(fn, signature, constants, options: dict[str, Any], chip: Target):
    """(the checked program, the recorded one), kept per specialisation on the function itself."""
    seen = seen_by(fn, constants)
    key = (repr(signature), repr(sorted((path, _key(value)) for path, value in constants.items())), repr(sorted(
        options.items(), key=str)), chip.name, seen.digest, seen.native_key())
    cache = fn.__dict__.setdefault("_simulated_programs", {})
    if key not in cache or seen.unknown:    # what cannot be told from what it was is recorded each time
        options = dict(options)
        cluster = options.pop("ctas_per_cga", None)
        check_cluster_target(cluster, options.pop("preferred_ctas_per_cga", None), chip)
        backend = make_backend(gpu_target(chip))
        # Assertions are checked here even where a launch leaves them out; integer overflow only if the launch checks it.
        debugging = {"debug": True, "sanitize_overflow": bool(options.get("debug"))}
        check_options(fn, options, backend)
        parsed = backend.parse_options({"enable_fp_fusion": True, **debugging, **options})
        kernel = Kernel(fn, signature, constants, {}, cluster or ALONE)
        recorded = {}
        program = kernel.record(chip, parsed, backend, lambda stage, one: recorded.setdefault("recorded", one))
        if not program.orchestrates():
            with refusing(fn):
                program = run_passes(program, chip)
        cache[key] = program, recorded["recorded"]
    return cache[key]


def check_options(fn, options: dict[str, Any], backend) -> None:
    """UnknownKeyword, a KeyError as of a launch on a GPU, for a keyword that is neither a parameter of the kernel nor an option of
    Triton's; LaunchError for an option that is no such number."""
    check_numbers(options)
    known = backend.parse_options({"enable_fp_fusion": True}).__dict__
    unknown = next((name for name in options if name not in known and name not in CLUSTERS), None)
    if unknown is not None:
        raise unknown_keyword(fn, unknown, [*known, *CLUSTERS])


def _key(value) -> str:
    return getattr(value, "cache_key", None) or repr(value)
