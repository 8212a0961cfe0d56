"""How many wrong kernels does `mimw.check` notice? Every synchronising word of a kernel is changed, one at a time.

    python -m benchmarks.mutations [--out docs/MUTATIONS.md] [--seeds 200]

A mutant changes one source line in every place where it was inlined. One is *caught* if the compiler refuses it or a few seeds
and the systematic search find something. One that is not caught runs on `--seeds` interleavings and is *missed* if one of these
ends in an error or another result; else it is listed with the reason why it is no mistake (`_REASONS`, matched in order).
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np

from mimw.check import Search
from mimw.errors import MimwError
from mimw.ir import OPS, Block, Op, Program, Value
from mimw.ir.types import I32
from mimw.kernels import gemm
from mimw.passes import run_passes
from mimw.simulate import Launch, prepare
from mimw.simulator import run
from mimw.target import target

SYNC = {"barrier_wait", "barrier_arrive", "barrier_expect", "fence", "async_dot_wait", "tma_store_wait", "async_wait", "async_commit"}
ORDERED = SYNC | {"tma_load", "tma_store", "async_dot", "async_load", "local_load", "local_store"}


@dataclass(frozen=True)
class Mutant:
    """One change: what it is called, the word and line it was made at, and the program."""

    change: str
    word: str
    line: int
    program: Program


# ---- making mutants --------------------------------------------------------------------------------------------------

def mutants(program: Program) -> Iterator[Mutant]:
    """Every mutant of a program, each different source line once."""
    for (name, site), op in _lines(program).items():
        for change, edit in _edits(op):
            yield Mutant(change, name, site.line, _each(program, name, site, edit))
    yield from _swapped(program)


def _lines(program: Program) -> dict:
    return {(op.name, op.site): op for op in program.walk()
            if op.name in SYNC | {"alloc_barriers", "buffer_index", "barrier_index"}}


def _edits(op: Op) -> Iterator[tuple[str, Callable[[Op], list[Op]]]]:
    name = op.name
    if name == "async_dot_wait":
        yield "drop", lambda op: [_with(op, "pending", 99)]
        yield "wait for one less", lambda op: [_with(op, "pending", op.args[0] + 1)]
    elif name in SYNC:
        yield "drop", lambda op: []
    if name in ("barrier_arrive", "barrier_expect", "barrier_wait"):
        yield "duplicate", lambda op: [op, op]
    if name == "tma_store_wait":
        yield "wait for one less", lambda op: [_with(op, "pending", op.args[0] + 1)]
    if name == "barrier_wait":
        yield "shift phase", lambda op: _arithmetic(op, "phase", "xor", 1)
    if name == "barrier_arrive":
        yield "count + 1", lambda op: [_with(op, "count", op.args[1] + 1)]
        if _of(op, "predicate") is not None:
            yield "drop predicate", lambda op: [_with(op, "predicate", None)]
    if name == "alloc_barriers":
        yield "count + 1", lambda op: [_with(op, "arrive_count", op.args[1] + 1)]
        if op.args[1] > 1:
            yield "count - 1", lambda op: [_with(op, "arrive_count", op.args[1] - 1)]
    if name == "barrier_expect" and isinstance(_of(op, "bytes"), int):
        for label, change in (("bytes + 16", lambda n: n + 16), ("bytes - 16", lambda n: n - 16), ("half the bytes", lambda n: n // 2)):
            yield label, lambda op, change=change: [_with(op, "bytes", change(_of(op, "bytes")))]
    if name in ("buffer_index", "barrier_index") and op.args[0].type.count > 1:
        yield f"swap {name.partition('_')[0]}s", _next_index


def _of(op: Op, param: str):
    return op.args[OPS[op.name].params.index(param)]


def _with(op: Op, param: str, value) -> Op:
    at = OPS[op.name].params.index(param)
    return replace(op, args=(*op.args[:at], value, *op.args[at + 1:]))


def _constant(number: int, op: Op) -> Op:
    return Op("constant", (number, I32), (Value(I32), ), site=op.site)


def _arithmetic(op: Op, param: str, name: str, number: int) -> list[Op]:
    constant = _constant(number, op)
    other = Op(name, (_of(op, param), constant.result), (Value(I32), ), site=op.site)
    return [constant, other, _with(op, param, other.result)]


def _next_index(op: Op) -> list[Op]:
    """The element behind the one that was meant, round the array."""
    array, index = op.args[:2]
    if isinstance(index, int):
        return [_with(op, "index", (index + 1) % array.type.count)]
    one, count = _constant(1, op), _constant(array.type.count, op)
    add = Op("add", (index, one.result), (Value(I32), ), site=op.site)
    around = Op("srem", (add.result, count.result), (Value(I32), ), site=op.site)
    return [one, count, add, around, _with(op, "index", around.result)]


def _each(program: Program, name: str, site, edit: Callable[[Op], list[Op]]) -> Program:
    """The program with `edit` applied to every op of that name and source line."""

    def ops_of(op: Op) -> list[Op]:
        if op.name == name and op.site == site:
            return edit(op)
        return [replace(op, blocks=tuple(map(block_of, op.blocks)))] if op.blocks else [op]

    def block_of(block: Block) -> Block:
        return replace(block, ops=tuple(new for op in block.ops for new in ops_of(op)))

    return replace(program, body=block_of(program.body))


def _swapped(program: Program) -> Iterator[Mutant]:
    """A synchronising op and the next ordered one of its block change places: releases come early, waits late."""
    pairs = {}
    for block in _blocks(program.body):
        ordered = [op for op in block.ops if op.name in ORDERED or op.blocks]
        for one, other in zip(ordered, ordered[1:]):
            if {one.name, other.name} & SYNC and not (one.blocks or other.blocks) and _may_swap(block, one, other):
                pairs.setdefault((one.name, one.site, other.name, other.site), None)
    for first, site, second, other_site in pairs:
        change = "release early" if second == "barrier_arrive" else "wait late" if first.endswith("wait") else "swap"
        yield Mutant(f"{change} (past {second}, line {other_site.line})", first, site.line,
                     replace(program, body=_swap(program.body, (first, site), (second, other_site))))


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner)


def _may_swap(block: Block, one: Op, other: Op) -> bool:
    """Whether `one` may stand behind `other`: nothing up to there uses its results."""
    between = block.ops[block.ops.index(one) + 1:block.ops.index(other) + 1]
    return not any(result in op.operands for op in between for result in one.results)


def _swap(block: Block, first, second) -> Block:
    ops = [replace(op, blocks=tuple(_swap(inner, first, second) for inner in op.blocks)) if op.blocks else op for op in block.ops]
    ordered = [op for op in ops if op.name in ORDERED or op.blocks]
    moves = {id(other): one for one, other in zip(ordered, ordered[1:])
             if (one.name, one.site) == first and (other.name, other.site) == second and _may_swap(replace(block, ops=tuple(ops)), one, other)}
    moved = {id(one) for one in moves.values()}
    result = []
    for op in ops:
        if id(op) not in moved:
            result.append(op)
        if id(op) in moves:
            result.append(moves[id(op)])
    return replace(block, ops=tuple(result))


# ---- running them ----------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Outcome:
    """`verdict`: caught, missed or equivalent; `by` the class that caught it, or the reason."""

    mutant: Mutant
    verdict: str
    by: str


def judge(launch: Launch, mutant: Mutant, result: np.ndarray, seeds: int) -> Outcome:
    """`result` is the array in `launch` that the kernel computes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = run_passes(mutant.program, target("sm_90a"))
    except MimwError as error:
        return Outcome(mutant, "caught", f"{error.kind} (compiler)")
    changed = replace(launch, program=program)
    search = Search(changed)
    report = search.all(4, "both", 4, shrink=False)
    if report.findings:
        return Outcome(mutant, "caught", report.findings[0].kind)
    run(launch.program, launch.grid, launch.values)
    wanted = result.copy()
    try:
        for seed in range(seeds):
            search.saved.restore()
            try:
                run(program, launch.grid, launch.values, seed=seed)
            except MimwError as error:
                return Outcome(mutant, "missed", f"seed {seed}: {error.kind}")
            if not np.array_equal(result, wanted):
                return Outcome(mutant, "missed", f"seed {seed}: another result, by a protocol without a fault: every access is "
                               "ordered, and the data are another's. Only comparing results shows it")
    finally:
        search.saved.restore()
    return Outcome(mutant, "equivalent", _reason(mutant))


_REASONS = (
    (lambda m: m.word == "alloc_barriers", "Nobody uses these barriers in this schedule."),
    (lambda m: m.change == "duplicate" and m.word == "barrier_wait",
     "The second wait finds the phase over that the first has waited for: nobody can complete the next one before this task goes on."),
    (lambda m: m.change == "duplicate" and m.word == "fence", "A fence twice is a fence."),
    (lambda m: m.change == "swap buffers", "The ring is turned by one slot for who writes and who reads alike."),
    (lambda m: m.word == "barrier_expect" and "tma_load" in m.change,
     "The arrival that the expect itself is keeps the phase open, so bytes may land before they are announced."),
    (lambda m: m.word == "barrier_arrive" and m.change.startswith("swap"),
     "The release comes later than it could, and what it is put behind waits for nobody who needs it: slower, and right."),
)


def _reason(mutant: Mutant) -> str:
    return next((reason for matches, reason in _REASONS if matches(mutant)), "not argued: look at it")


def _gemm(name: str, **configuration) -> tuple[str, Launch, np.ndarray]:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((256, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((256, 192), ml_dtypes.bfloat16)
    grid, args, meta = gemm.arguments(a, np.ascontiguousarray(b[:, :192]), c, 2, gemm.Configuration(**configuration))
    return name, prepare(gemm.kernel, grid, args, meta), c


def kernels() -> Iterator[tuple[str, Launch, np.ndarray]]:
    """Name, launch and result array of each kernel that is mutated."""
    yield _gemm("GEMM, one consumer", bm=64, bn=64, stages=3, consumers=1, staging=1)
    yield _gemm("GEMM, cooperative", bm=128, bn=128, stages=2, consumers=2, staging=2)
    yield _gemm("GEMM, ping-pong", bm=64, bn=128, stages=2, consumers=2, staging=1, ping_pong=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path)
    options.add_argument("--seeds", type=int, default=200)
    options = options.parse_args()
    parts = []
    for name, launch, result in kernels():
        clean = Search(launch).all(options.seeds, "both", 4, shrink=False)
        outcomes = [judge(launch, mutant, result, options.seeds) for mutant in mutants(launch.program)]
        parts.append(_section(name, clean, outcomes))
        print(parts[-1][1], flush=True)
    text = _HEAD + "\n".join(row for row, _ in parts) + "\n\n" + "\n".join(section for _, section in parts)
    if options.out:
        options.out.write_text(text)


_HEAD = """# Mutation score of `mimw check`

Made by `python -m benchmarks.mutations --out docs/MUTATIONS.md`. Each mutant changes one synchronising line of a kernel, in every
place where it was inlined; the score is caught / (caught + missed). *Alarms* are findings on the unchanged kernel over its seeds.

| Kernel | Mutants | Caught | Missed | Equivalent | Score | Alarms (runs) |
|---|---|---|---|---|---|---|
"""


def _section(name: str, clean, outcomes: list[Outcome]) -> tuple[str, str]:
    """(row of the table, section with classes and the mutants that were not caught)."""
    count = Counter(outcome.verdict for outcome in outcomes)
    score = count["caught"] / max(1, count["caught"] + count["missed"])
    row = (f"| {name} | {len(outcomes)} | {count['caught']} | {count['missed']} | {count['equivalent']} | {score:.1%} | "
           f"{len(clean.findings)} ({clean.runs}) |")
    lines = [f"## {name}\n", "| Class | Mutants |", "|---|---|"]
    lines += [f"| {kind} | {number} |" for kind, number in Counter(o.by for o in outcomes if o.verdict == "caught").most_common()]
    lines += ["", "| Not caught | Line | Change | Verdict | Reason |", "|---|---|---|---|---|"]
    lines += [f"| {o.mutant.word} | {o.mutant.line} | {o.mutant.change} | {o.verdict} | {o.by} |"
              for o in outcomes if o.verdict != "caught"]
    return row, "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
