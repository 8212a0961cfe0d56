"""An ordinary program under each plan of automatic orchestration: the same bits as plain, clean, and its text the same program.

    judged(7, ("sim", "check"))         Judged([("sim", "ok", ""), ("sim", "stays plain", "no loop .."), ..], loops=2,
    orchestrated=2)

Input: a seed, or a record of draws. Output: plain data. Plans that `mimw.orchestrate` would try are carried out, with one, two,
three or as
many slots as fit (four by turns; one under the stage "one", all under "every"), at the sizes drawn and at one fewer trip. `FINE`
are the outcomes that are no
failures; the compiler may refuse a plan that asks for more slots than fit, or tiles of which
not even one slot does.
"""

from __future__ import annotations

import importlib.util
import random
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mimw.compiler.analysis.uses import uses_of
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.triton_port.interpreter import one_by_one
from mimw.errors import LaunchError, OutOfSharedMemory, SimulationError
from mimw.ir import Program
from mimw.target import wanted
from mimw.tools.check import check
from mimw.tools.orchestrate.choose import every_plan
from mimw.tools.orchestrate.inputs import copies, different
from mimw.tools.orchestrate.plain import Plain, plain_of
from mimw.tools.orchestrate.prove import _run, prove
from mimw.tools.orchestrate.several import several
from mimw.tools.orchestrate.written import Written, written

from .draw import Ordinary, drawn

FINE = ("ok", "skipped", "stays plain", "guarded", "refused", "too short", "no plain")
CHIP = wanted().name     # MIMW_TARGET, by default sm_90a
MANY = 10000        # tiles, of which several programs on each multiprocessor would have some
DEPTHS = 1, 2, 3, None      # slots of a pipe; None: as many as fit
SOME = 4            # plans of a program, where not every one is asked for
SEEDS = 2           # interleavings of the check
_FOLDER = tempfile.TemporaryDirectory(prefix="mimw-fuzz-ordinary-")


@dataclass
class Judged:
    """`outcomes`: (stage, kind, detail) of each plan; `loops` with products, and those of them that some plan orchestrates;
    `seconds` of the steps on a GPU."""

    outcomes: list[tuple[str, str, str]] = field(default_factory=list)
    loops: int = 0
    orchestrated: int = 0
    plans: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def kernel_of(source: str, name: str) -> Any:
    """The kernel of a module with that text."""
    path = Path(_FOLDER.name) / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def launched(program: Ordinary) -> Plain:
    """The plain launch."""
    kernel = kernel_of(program.source, f"ordinary_{program.seed}")
    meta = {**program.constants, "num_warps": program.warps}
    return plain_of(kernel, program.grid, tuple(program.arguments()), meta, CHIP)


def judged(seed: int, stages: tuple[str, ...], record=None) -> Judged:
    """The outcomes of a seed's program: on the GPU, if "gpu" is among the stages, and on the simulator, if there are others."""
    if "gpu" in stages:
        from .device import judged_there
        there, here = judged_there(seed, record), tuple(stage for stage in stages if stage != "gpu")
        if here:
            there.outcomes += judged(seed, here, record).outcomes
        return there
    program, _ = drawn(seed, record)
    found = Judged()
    try:
        plain = launched(program)
        wanted = [_plain_run(plain, sizes) for sizes in _sizes(program)]
    except LaunchError as error:       # a tensor of no elements has no descriptor: the plain kernel runs no more
        found.outcomes.append(("generate", "skipped", str(error)))
        return found
    except Exception:
        found.outcomes.append(("generate", "broken", f"{traceback.format_exc()[-1500:]}\n{program.source}"))
        return found
    lines = loops_with_products(plain.program)
    done, seen = set(), set()
    for plan in _plans(plain, seed, stages):
        about = f"\n{plan.text()}\n{program.source}"
        try:
            one = written(plain, plan)
            kind, detail = _said(one)
            if kind == "ok" and one.text in seen:
                continue
            seen.add(one.text)
            if kind == "ok":
                found.plans += 1
                done |= {load.site.line for load in one.made.rings.loads}      # passes keep the lines
                kind, detail = _compared(one, wanted)
            found.outcomes.append(("sim", kind, "" if kind == "ok" else detail + about))
            if kind == "ok" and "check" in stages:
                found.outcomes.append(("check", *_checked(one, seed, about)))
            if kind == "ok" and "prove" in stages:
                proof = prove(one, seeds=2, limit=20)
                kind = "ok" if proof.ok else "too short" if _short(proof.wrong) else "not proved"
                kind = _refused(one, proof.wrong) if proof.wrong.startswith(OutOfSharedMemory.__name__) else kind
                found.outcomes.append(("prove", kind, str(proof) + about))
        except SimulationError as error:
            found.outcomes.append(("sim", f"alarm {type(error).__name__}", f"{error}{about}"))
        except Exception as error:
            found.outcomes.append(("sim", f"internal {type(error).__name__}", f"{traceback.format_exc()[-1500:]}{about}"))
    found.loops, found.orchestrated = len(lines), sum(not inside.isdisjoint(done) for inside in lines.values())
    return found


def _short(wrong: str) -> bool:
    """A proof that is not given since the launch is too short or its grid too small for it, or since data decide how long it is."""
    reasons = "orchestrate a longer launch", "orchestrate one of a larger grid", "data decide how many"
    return any(text in wrong for text in reasons)


def _plans(plain: Plain, seed: int, stages: tuple[str, ...]) -> Iterator[Plan]:
    """All plans with each depth ("every"); or `SOME` of them by turns, or one ("one"). Few have as many slots as fit: these are
    compiled
    in part."""
    found = [*every_plan(plain), *several(plain.program, plain.chip, MANY)]
    if "every" in stages:
        yield from (replace(plan, stages=stages) for plan in found for stages in DEPTHS)
        return
    turn = random.Random(seed)
    for plan in turn.sample(found, 1 if "one" in stages else min(SOME, len(found))):
        yield replace(plan, stages=turn.choices(DEPTHS, (2, 4, 3, 0 if "one" in stages else 0.5))[0])


def _sizes(program: Ordinary) -> list[dict[str, int]]:
    """Sizes that differ from the drawn ones: none, and a trip fewer."""
    fewer = program.sizes["K"] - program.constants["C"]
    return [{}, {"K": fewer}] if fewer >= 0 and "ends" not in program.vectors else [{}]     # loops end where an array says


def _plain_run(plain: Plain, sizes: dict[str, int]) -> tuple[dict[str, int], Plain]:
    """The plain kernel's results, with these sizes."""
    fresh = plain.with_values({**copies(plain.arguments), **sizes})
    with one_by_one():
        _run(fresh.launch, fresh.launch.grid, ())
    return sizes, fresh


def _said(one: Written) -> tuple[str, str]:
    """What became of a plan before anything runs."""
    if one.wrong:
        return "wrong text", f"{one.wrong}\n{one.text}"
    if one.refused:
        if one.refused == one.why_plain(one.plain.launch.grid, (), one.plain.arguments):
            return "guarded", one.refused
        return _refused(one, one.refused), f"{one.refused}\n{one.text}"
    if one.kernel is None:
        return "stays plain", "; ".join(remark.message for remark in one.remarks)
    return "ok", ""


def _refused(one: Written, why: str) -> str:
    """The kind of a refusal by the compiler: too many slots may be asked for by name; without a name, as many are taken as fit."""
    too_large = why.startswith(OutOfSharedMemory.__name__)
    single = all(ring.stages == 1 for ring in one.made.rings.roots)
    return "refused" if too_large and (one.plan.stages is not None or single) else "refused by mistake"


def _compared(one: Written, wanted: list[tuple[dict[str, int], Plain]]) -> tuple[str, str]:
    for sizes, plain in wanted:
        other = one.plain.with_values({**copies(one.plain.arguments), **sizes})
        if why := one.why_plain(one.plain.launch.grid, (), other.arguments):
            if not sizes:
                return "guarded", why
            continue
        ours = one.launch(other, None, 2 if sizes else 1)       # programs that take all tiles in turn, where they do
        with one_by_one():
            _run(ours, ours.grid, ())
        if found := different(plain.arguments, other.arguments):
            return "mismatch", f"{', '.join(found)} differ with {sizes}\n{one.text}"
    return "ok", ""


def _checked(one: Written, seed: int, about: str) -> tuple[str, str]:
    inputs = one.plain.with_values(copies(one.plain.arguments))
    grid = tuple(map(min, one.plain.launch.grid, (2, 1, 1)))
    report = check(one.kernel, grid, *one.arguments(inputs), **one.options, target=CHIP, shrink=False, seeds=SEEDS,
                   rounds=False, jobs=1)
    if report.ok:
        return "ok", ""
    found, said = report.findings[0], f"{report.findings[0]}\n{one.text}{about}"
    return (_refused(one, str(found)) if found.kind == OutOfSharedMemory.__name__ else f"alarm {found.kind}"), said


# ---- the share that is orchestrated ------------------------------------------------------------------------------------------


def loops_with_products(program: Program) -> dict[int, set[int]]:
    """The loops that have a product of their own, in no loop inside: their lines, and those of all that is in them."""
    uses = uses_of(program)
    loops = {uses.loops(op)[-1] for op in program.walk() if "dot" in op.row.traits and uses.loops(op)}
    return {loop.site.line: {op.site.line for op in loop.walk()} for loop in loops}
