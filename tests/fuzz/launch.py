"""One program, one stage: on the simulator, under `mimw.check`, through the compiler for a chip, or on a GPU.

Input: a `Program`. Output: an `Outcome`: "ok", a kind of failure, and the detail. The reference is the program's numpy side, run by
the text of prelude.py; nothing of mimw takes part in it.

    Outcome("sim", "mismatch", "y0 seed 1: ...")
"""

from __future__ import annotations

import functools
import importlib.util
import os
import tempfile
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np

from . import prelude
from .elements import ELEMENTS
from .tree import Argument, Program

NUMPY = {name: eval(one.reading, {"np": np, "ml_dtypes": ml_dtypes}) for name, one in ELEMENTS.items()}
PRELUDE = Path(__file__).with_name("prelude.py").read_text()
STAGES = ("sim", "check", "text", "written", "ttgir", "compile", "gpu")
TARGETS = ("sm_90a", "sm_100a", "gfx942", "gfx950")
_SIMULATED_SEEDS, _LAUNCHES = 2, 3


@dataclass(frozen=True)
class Outcome:
    """`kind`: ok, mismatch, alarm, refused X, internal X, skipped, unread OP; two failures with one stage and kind count as the
    same."""

    stage: str
    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind not in ("ok", "skipped") and not self.kind.startswith("unread ")


def array_of(one: Argument) -> np.ndarray:
    """A fresh array as the argument describes it."""
    return prelude.filled(one.fill, one.shape, NUMPY[one.element])


def arrays_of(program: Program) -> dict[str, np.ndarray]:
    return {one.name: array_of(one) for one in program.arguments if one.kind == "array"}


def reference(program: Program) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """(the outputs as numpy reads the program, how often each channel is used by one CTA)."""
    space: dict = {"__name__": "reading"}
    exec(compile(PRELUDE, "prelude", "exec"), space)
    exec(compile(program.reading, f"reading of {program.family} {program.seed}", "exec"), space)
    arrays = arrays_of(program)
    given = {
        one.name: arrays[one.name] if one.kind == "array" else one.value
        for one in program.arguments
        if one.kind != "descriptor"
    }
    counts = space["read"](space["program"], program.grid, program.cluster, given)
    outputs = {}
    for one in program.arguments:
        if one.output:
            whole = arrays[one.name]
            part = whole.reshape(-1)[: whole.size // one.copies]
            outputs[one.name] = np.concatenate([part] * one.copies).reshape(whole.shape)
    return outputs, counts


_FOLDER = tempfile.TemporaryDirectory(prefix="mimw-fuzz-")


def load(program: Program, folder: str | Path, source: str | None = None):
    """The kernel, from a file of its own: the frontend reads sources."""
    path = Path(folder) / f"{program.family}_{program.seed}.py"
    path.write_text(program.kernel if source is None else source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


@functools.cache
def shared(seed: int, only: str | None = None) -> tuple[Program, object]:
    """The program of a seed and its kernel, for tests of one process that share what is recorded of it."""
    from .families import program_of

    program, _ = program_of(seed, only)
    return program, load(program, _FOLDER.name)


def bound(program: Program, arrays: dict, make_descriptor):
    """The positional arguments of a launch; constants are among them."""
    values = []
    for one in sorted(program.arguments, key=lambda argument: argument.kind == "constant"):
        if one.kind == "array":
            values.append(arrays[one.name])
        elif one.kind == "descriptor":
            values.append(make_descriptor(arrays[one.of], list(one.block)))
        else:
            values.append(one.value)
    return values


def differs(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """ "" or what differs, in a few words. A NaN is equal to a NaN, whatever its bits."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype.kind not in "iub":
        got, want = got.astype(np.float64), want.astype(np.float64)
    nans = (got != got) & (want != want)
    wrong = ~(np.isclose(got, want, rtol=tolerance, atol=tolerance) | nans) if tolerance else (got != want) & ~nans
    if not wrong.any():
        return ""
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, first at {place}: {got[place]} for {want[place]}"


def compared(program: Program, arrays: dict, want: dict, stage: str, label: str) -> Outcome | None:
    for one in program.arguments:
        if one.output and (what := differs(arrays[one.name], want[one.name], one.tolerance)):
            return Outcome(stage, "mismatch", f"{label}: {one.name}: {what}")
    return None


def known() -> tuple[type, ...]:
    """What mimw refuses with, and what Triton wraps it in."""
    import triton

    import mimw.errors

    return (
        *(one for one in vars(mimw.errors).values() if isinstance(one, type) and issubclass(one, BaseException)),
        triton.CompilationError,
    )


def guarded(stage: str, run) -> Outcome:
    """The outcome of a stage; an error of mimw's is a refusal, any other one is internal."""
    try:
        return run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        import triton

        import mimw.errors

        cause = error
        while isinstance(cause, triton.CompilationError) and cause.__cause__ is not None:
            cause = cause.__cause__
        refused = isinstance(error, known()) and not isinstance(cause, mimw.errors.InvalidProgram)
        text = (
            str(error)[-900:] if refused else str(error)[-500:] + "".join(traceback.format_tb(error.__traceback__)[-3:])
        )
        return Outcome(stage, f"{'refused' if refused else 'internal'} {type(cause).__name__}", text)


def simulated(program: Program, kernel, want) -> Outcome:
    import mimw

    for seed in range(_SIMULATED_SEEDS):
        arrays = arrays_of(program)
        mimw.simulate(
            kernel,
            program.launched,
            *bound(program, arrays, mimw.TensorDescriptor.from_tensor),
            seed=seed,
            target=program.chip,
            **launch_meta(program),
        )
        wrong = compared(program, arrays, want, "sim", f"seed {seed}")
        if wrong:
            return wrong
    return Outcome("sim", "ok")


def checked(program: Program, kernel, seeds: int = 3) -> Outcome:
    import mimw

    report = mimw.check(
        kernel,
        program.launched,
        *bound(program, arrays_of(program), mimw.TensorDescriptor.from_tensor),
        seeds=seeds,
        shrink=False,
        target=program.chip,
        **launch_meta(program),
    )
    if report.ok:
        return Outcome("check", "ok")
    return Outcome("check", f"alarm {report.findings[0].kind}", str(report.findings[0])[:900])


def read_back(program: Program, kernel) -> Outcome:
    """As text and back: the recorded program and the one that runs."""
    import importlib

    import mimw
    from tests.ir.same import same_text

    prepare = importlib.import_module("mimw.runtime.simulate").prepare
    arguments = bound(program, arrays_of(program), mimw.TensorDescriptor.from_tensor)
    same_text(prepare(kernel, program.launched, arguments, launch_meta(program), program.chip))
    return Outcome("text", "ok")


def written_again(program: Program, kernel, folder) -> Outcome:
    """As the text of a kernel, recorded again: the same program; skipped where an op has no text."""
    import mimw
    from mimw.errors import NotYet
    from tests.orchestrate.again import again, recorded

    arguments = bound(program, arrays_of(program), mimw.TensorDescriptor.from_tensor)
    launch = recorded(kernel, arguments, launch_meta(program), program.chip)
    try:
        _, differs = again(launch, "kernel", folder, f"{program.family}_{program.seed}")
    except NotYet as error:
        return Outcome("written", "skipped", error.message)
    return Outcome("written", "mismatch", differs) if differs else Outcome("written", "ok")


def launch_meta(program: Program) -> dict:
    meta = dict(program.meta)
    if program.cluster > 1 and not program.meshed and not program.whole_grid:
        meta["ctas_per_cga"] = (program.cluster, 1, 1)
    return meta


def compiled(program: Program, kernel, chip: str) -> Outcome:
    """To a binary; warnings are no failure, an empty binary is."""
    import triton.language as tl
    from triton.runtime.jit import MockTensor

    import mimw

    types = {np.dtype(NUMPY[name]): getattr(tl, one.tl.removeprefix("tl.")) for name, one in ELEMENTS.items()}
    values = []
    arrays = {one.name: np.zeros(one.shape, NUMPY[one.element]) for one in program.arguments if one.kind == "array"}
    for value in bound(program, arrays, mimw.TensorDescriptor.from_tensor):
        values.append(MockTensor(types[value.dtype]) if isinstance(value, np.ndarray) else value)
    held = os.environ.get("MIMW_TARGET")
    os.environ["MIMW_TARGET"] = chip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = kernel.warmup(*values, grid=program.launched, **launch_meta(program))
    finally:
        os.environ.pop("MIMW_TARGET") if held is None else os.environ.__setitem__("MIMW_TARGET", held)
    binary = next((made.asm[name] for name in ("cubin", "hsaco") if name in made.asm), b"")
    return Outcome(f"compile {chip}", "ok" if len(binary) > 500 else "empty")


def on_gpu(program: Program, kernel, want, launches: int = _LAUNCHES) -> Outcome:
    """Launched some times on fresh arrays, each time compared."""
    import torch
    import triton

    import mimw

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    for turn in range(launches):
        arrays = arrays_of(program)
        tensors = {name: to_device(torch, array) for name, array in arrays.items()}
        values = bound(program, tensors, mimw.TensorDescriptor.from_tensor)
        kernel[program.launched](*values, **launch_meta(program))
        torch.cuda.synchronize()
        for name, array in arrays.items():
            array.reshape(-1).view(np.uint8)[...] = tensors[name].contiguous().view(-1).view(torch.uint8).cpu().numpy()
        wrong = compared(program, arrays, want, "gpu", f"launch {turn}")
        if wrong:
            return wrong
    return Outcome("gpu", "ok")


def to_device(torch, array: np.ndarray):
    names = {"float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
    dtype = getattr(torch, names.get(array.dtype.name, array.dtype.name))
    return (
        torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy())
        .cuda()
        .view(dtype)
        .reshape(array.shape)
    )


ELSEWHERE = ("refused TargetError", "refused NotYet", "refused NotImplementedError")
TOO_MANY = ("refused TooManyWarps", "alarm TooManyWarps")      # for a chip that the generator did not count warps for
# The generator counts the bytes of buffers and the warps; how much scratch and how many registers the compiled kernel takes
# besides, no reading of the program tells. Pipelines for tensor memory do not count their columns.
TOO_LARGE = ("refused OutOfSharedMemory", "refused TooFewRegisters", "refused OutOfTensorMemory", "alarm OutOfSharedMemory",
             "alarm OutOfTensorMemory")


def borrowed(program: Program, chip: str) -> Program:
    """The program for a chip that its generator did not ask: what that one has not is skipped."""
    skips = dict(program.skips)
    if chip.startswith("gfx") and "gfx" in skips:
        skips |= dict.fromkeys(STAGES, skips["gfx"])
    return replace(program, chip=chip, skips=skips, foreign=True)


def run_stage(program: Program, stage: str, folder, want, kernel=None) -> list[Outcome]:
    """The outcomes of a stage; "compile" is one for each chip, and a chip that has not the words is no failure, but for the
    program's own. A chip that was not asked may lack them in any stage."""
    outcomes = _run_stage(program, stage, folder, want, kernel)
    left_out = (*ELSEWHERE, *TOO_MANY, *TOO_LARGE) if program.foreign else ()
    return [Outcome(one.stage, "skipped", one.detail) if one.kind in left_out else one for one in outcomes]


def _run_stage(program: Program, stage: str, folder, want, kernel) -> list[Outcome]:
    if (name := stage if stage in program.skips else stage.partition(" ")[0]) in program.skips:
        return [Outcome(stage, "skipped", program.skips[name])]
    if stage == "gpu":
        return [unless_too_large(guarded("gpu", lambda: on_gpu(program, kernel, want)))]
    if stage == "sim":
        return [guarded("sim", lambda: simulated(program, kernel, want))]
    if stage == "text":
        return [guarded("text", lambda: read_back(program, kernel))]
    if stage == "written":
        return [guarded("written", lambda: written_again(program, kernel, folder))]
    if stage == "ttgir":
        from .compiled_ttgir import judged

        return [as_compiled(program, guarded("ttgir", lambda: judged(program, load(program, folder), want)))]
    if stage == "check":
        return [unless_too_large(guarded("check", lambda: checked(program, kernel)))]
    chips = (stage.removeprefix("compile "),)
    if stage == "compile":
        chips = TARGETS if program.chip == "sm_90a" else (program.chip,)
    outcomes = []
    for chip in chips:
        name = f"compile {chip}"
        if (why := program.skips.get(name) or chip.startswith("gfx") and program.skips.get("gfx")):
            outcomes.append(Outcome(name, "skipped", why))
            continue
        one = guarded(name, lambda: compiled(program, load(program, folder), chip))
        one = Outcome(name, "skipped", one.detail) if chip != program.chip and one.kind in ELSEWHERE else one
        outcomes.append(unless_too_large(one))
    return outcomes


def as_compiled(program: Program, one: Outcome) -> Outcome:
    """What compiling a program for its chip skips, its stage "ttgir" skips, too."""
    if program.skips.get(f"compile {program.chip}"):
        return Outcome(one.stage, "skipped", program.skips[f"compile {program.chip}"])
    return unless_too_large(one)


def unless_too_large(one: Outcome) -> Outcome:
    """A compiled kernel that is too large for the chip is skipped, and counted as that."""
    return Outcome(one.stage, "skipped", one.detail) if one.kind in TOO_LARGE else one


def run_program(program: Program, stages, folder) -> list[Outcome]:
    """All the stages, in order."""
    outcomes: list[Outcome] = []
    try:
        want, _ = reference(program)
        kernel = load(program, folder)
    except Exception:
        return [Outcome("reference", "broken", traceback.format_exc()[-900:])]
    for stage in stages:
        outcomes += run_stage(program, stage, folder, want, kernel)
    return outcomes
