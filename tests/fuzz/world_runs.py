"""What is asked of a random program on several GPUs: its sums under several interleavings, a clean check, each break found; and
its sums on a real GPU, on which all ranks run side by side.

    judged(7, ("sim", "check", "gpu"))      [("sim", "ok", ""), ("check", "ok", ""), ("gpu", "ok", "")]
    found(7, limit=3)                  [{"why": "nobody waits", "verdict": "found", "by": "DataRace", ...}, ...]

Input: a seed. Output: plain data, as `worker` hands it on.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import traceback
from pathlib import Path

import numpy as np

import mimw
from mimw.errors import SimulationError
from tests.kernels.heaps import Heaps

from .draws import Draws
from .worlds import N, WorldProgram, world_program

SEEDS = 0, 3, 11        # of the scheduler
LAUNCHES = 3            # on a GPU
_FOLDER = tempfile.TemporaryDirectory(prefix="mimw-fuzz-worlds-")


def launch(program: WorldProgram, source: str | None = None) -> tuple:
    """(kernel, grid, args) on fresh arrays; `y` is the second argument."""
    kernel = _kernel(program, source)
    world, inputs = mimw.World(program.gpus, heap=1 << 16, scratch=1 << 10), program.inputs()
    x, y = world.each(lambda rank: inputs[rank].reshape(-1).copy(), "x"), world.each(
        lambda rank: np.zeros(program.programs * N, np.int32), "y")
    arrays = [world.symmetric(program.programs * elements, kind, name) for name, (elements, kind) in program.arrays.items()]
    return kernel, (program.programs, ), (x, y, world, *arrays)


def _kernel(program: WorldProgram, source: str | None = None):
    path = Path(_FOLDER.name) / f"world_{program.seed}{'' if source is None else '_broken'}.py"
    path.write_text(program.kernel if source is None else source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def judged(seed: int, stages: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """The outcome of each of the stages that a program on several GPUs has: sim, check and gpu."""
    program, found, has = world_program(seed), [], {"sim": _simulated, "check": _checked, "gpu": _launched}
    for stage in stages:
        if stage not in has:
            found.append((stage, "skipped", "of programs on one GPU"))
            continue
        try:
            found.append((stage, *has[stage](program)))
        except SimulationError as error:
            found.append((stage, f"alarm {type(error).__name__}", f"{error}\n{program.kernel}"))
        except Exception as error:
            found.append((stage, f"internal {type(error).__name__}", f"{traceback.format_exc()[-900:]}\n{program.kernel}"))
    return found


def _simulated(program: WorldProgram) -> tuple[str, str]:
    for seed in SEEDS:
        kernel, grid, args = launch(program)
        mimw.simulate(kernel, grid, *args, seed=seed, races=True)
        if said := _difference(program, np.array(list(args[1]))):
            return "mismatch", f"seed {seed}: {said}\n{program.kernel}"
    return "ok", ""


def _launched(program: WorldProgram) -> tuple[str, str]:
    """Several launches on one GPU, each rank's in a stream and a hardware queue of its own, since they wait for each other."""
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    import torch
    heaps, kernel = Heaps(program.gpus, 1 << 16, 1 << 10), _kernel(program)
    x = torch.from_numpy(program.inputs()).cuda()
    arrays = [heaps.symmetric(program.programs * elements, getattr(torch, kind)) for elements, kind in program.arrays.values()]
    for number in range(LAUNCHES):
        y = torch.zeros_like(x)
        for rank in range(program.gpus):
            for one in arrays:
                one[rank].zero_()
        heaps.launch(kernel, (program.programs, ), lambda rank, world: (x[rank], y[rank], world, *(one[rank] for one in arrays)))
        if said := _difference(program, y.cpu().numpy()):
            return "mismatch", f"launch {number}: {said}\n{program.kernel}"
        if not heaps.pads_are_zero():
            return "mismatch", f"launch {number}: the signal pads are not as they were\n{program.kernel}"
    return "ok", ""


def _difference(program: WorldProgram, y: np.ndarray) -> str:
    got, want = y.reshape(program.gpus, program.programs, N), program.expected()
    if (got == want).all():
        return ""
    rank, pid, at = np.argwhere(got != want)[0]
    return f"y of rank {rank}, program {pid}, element {at} is {got[rank, pid, at]}, not {want[rank, pid, at]}"


def _checked(program: WorldProgram) -> tuple[str, str]:
    kernel, grid, args = launch(program)
    report = mimw.check(kernel, grid, *args, seeds=4, shrink=False, jobs=1)
    return ("ok", "") if report.ok else (f"alarm {report.findings[0].kind}", f"{report.findings[0]}\n{program.kernel}")


def found(seed: int, limit: int) -> list[dict]:
    """Of so many breaks of a seed's program, drawn by the seed: which are found, and by what."""
    program, draws = world_program(seed), Draws(seed + 17)
    places, results = list(range(len(program.breaks))), []
    for _ in range(min(limit, len(places))):
        which = places.pop(draws.integer(0, len(places) - 1))
        one = program.breaks[which]
        source = program.broken(which)
        kernel, grid, args = launch(program, source)
        report = mimw.check(kernel, grid, *args, seeds=8, shrink=False, rounds=False, jobs=1)
        lines = zip(source.split("\n"), program.kernel.split("\n"))
        line = next(number for number, (new, old) in enumerate(lines, 1) if new != old)
        results.append({"role": "ranks", "change": one.why, "why": one.why, "line": line, "old": one.old.split("\n")[0].strip(),
                        "verdict": "missed" if report.ok else "found",
                        "by": source if report.ok else report.findings[0].kind})
    return results
