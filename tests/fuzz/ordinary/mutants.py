"""Mistakes in what the steps of automatic orchestration make; the proof has to find each on at least one program of a small corpus.

    python -m tests.fuzz.ordinary.mutants           a row for each: the mistake, the program that shows it, by what it was found
    hunted("no release")                            Verdict("found", "gemm", "Deadlock ..")

A mistake is a change of what a step of `tools/orchestrate/written.py` returns: of the boxes (`lifted`), the delayed program
(`delayed`), the tasks
(`orchestrated`), or the printed text (`module_text`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from mimw.compiler.orchestrate.plan import Plan
from mimw.ir import I32, Block, Op, Program, Value
from mimw.tools.orchestrate import written as steps
from mimw.tools.orchestrate.plain import Plain, plain_of
from mimw.tools.orchestrate.prove import prove
from tests.orchestrate.cases import attention, gemm_cast, gemm_pointers, small_loads
from tests.orchestrate.found_by_fuzzing import CASES
from tests.orchestrate.overlapping import overlapping, some_trips

Change = Callable[[Op], Any]


@dataclass(frozen=True)
class Verdict:
    """`how`: found, missed, or not planted; on which program of the corpus; and what found it."""

    how: str
    program: str = ""
    by: str = ""


# ---- changing programs -------------------------------------------------------------------------------------------------------


def everywhere(change: Change) -> Callable[[Program], Program]:
    """Change ops: to another one, to several, or to none."""
    def changed(program: Program) -> Program:
        def walk(block: Block) -> Block:
            ops: list[Op] = []
            for op in block.ops:
                new = change(op)
                for one in new if isinstance(new, tuple) else (new, ):
                    ops.append(one.with_blocks(walk) if one is op else one)
            return block.with_ops(ops)
        return replace(program, body=walk(program.body))
    return changed


def without(name: str) -> Callable[[Program], Program]:
    return everywhere(lambda op: () if op.name == name else op)


def other(name: str, **changes: Callable[[Any], Any]) -> Callable[[Program], Program]:
    return everywhere(lambda op: op.with_operands(**{key: change(getattr(op, key)) for key, change in changes.items()})
                      if op.name == name else op)


def moved(name: str, operand: str, by: int, at: int | None = None) -> Callable[[Program], Program]:
    """A number that ops take, or number `at` of several, is greater by `by`."""
    def change(op: Op) -> Any:
        if op.name != name:
            return op
        given = getattr(op, operand)
        number = given if at is None else given[at]
        step = Op("constant", (by, number.type), (Value(number.type), ), site=op.site)
        sum_ = Op("add", (number, step.result), (Value(number.type), ), site=op.site)
        new = sum_.result if at is None else tuple(sum_.result if place == at % len(given) else one for place,
            one in enumerate(given))
        return step, sum_, op.with_operands(**{operand: new})
    return everywhere(change)


def lost_in_branches(op: Op) -> Any:
    """What the first block of an `if` counted is forgotten."""
    if op.name != "if" or len(op.blocks) != 2:
        return op
    first, second = op.blocks
    kept = tuple(other if one.type == I32 and not _is_made_in(other, second) else one for one, other in zip(first.yielded,
        second.yielded))
    if kept == tuple(first.yielded):
        return op
    last = first.ops[-1].with_operands(values=kept)
    return Op(op.name, op.args, op.results, (first.with_ops((*first.ops[:-1], last)), second), op.attrs, op.site)


def _is_made_in(value: Value, block: Block) -> bool:
    return any(value in op.results for op in block.ops)


def swapped(first: str, second: str) -> Callable[[Program], Program]:
    """An op that stands behind another one stands in front of it."""
    def walk(block: Block) -> Block:
        ops = [op.with_blocks(walk) for op in block.ops]
        for at in range(len(ops) - 1):
            if ops[at].name == first and ops[at + 1].name == second:
                ops[at], ops[at + 1] = ops[at + 1], ops[at]
        return block.with_ops(ops)
    return lambda program: replace(program, body=walk(program.body))


def first_trip_twice(op: Op) -> Any:
    """The loop behind a first trip begins with that trip again."""
    if op.name != "if" or not op.blocks:
        return op
    then = op.blocks[0]
    sums = {one.result: one.lhs for one in then.ops if one.name == "add" and one.result.type == I32}
    ops = tuple(one.with_operands(start=sums[one.start]) if one.name == "for" and one.start in sums else one for one in then.ops)
    return op if ops == tuple(then.ops) else Op(op.name, op.args, op.results, (then.with_ops(ops), *op.blocks[1:]), op.attrs,
        op.site)


def handed_on_late(op: Op) -> Any:
    """What a trip loads for the next one is lost: the next one has its own once more."""
    if op.name != "for":
        return op
    body = op.blocks[0]
    loaded = {one.result for one in body.ops if one.name == "masked_load"}
    values = tuple(argument if value in loaded else value for argument, value in zip(body.args[1:], body.yielded))
    if values == tuple(body.yielded):
        return op
    last = body.ops[-1].with_operands(values=values)
    return Op(op.name, op.args, op.results, (body.with_ops((*body.ops[:-1], last)), ), op.attrs, op.site)


# ---- the mistakes ------------------------------------------------------------------------------------------------------------


def in_tasks(change: Callable[[Program], Program]):
    return "orchestrated", lambda made: made if made.program is None else replace(made, program=change(made.program))


def in_boxes(change: Callable[[Program], Program]):
    return "lifted", lambda boxes: replace(boxes, program=change(boxes.program))


def in_descriptors(change: Callable[[Any], Any]):
    return "lifted", lambda boxes: replace(boxes, descriptors=tuple(map(change, boxes.descriptors)))


def ahead(change: Callable[[Program], Program]):
    return "loaded_ahead", lambda made: replace(made, program=change(made.program))


def in_text(pattern: str, new: str):
    return "module_text", lambda text: re.sub(pattern, new, text, count=1)


def _late_trip(made: Any) -> Any:
    """The late product loads what belongs to the trip itself."""
    sites = {op.site for op in made.late}

    def change(op: Op) -> Any:
        if op.name != "for":
            return op
        body = op.blocks[0]
        kept = [body.args[1 + at] for at, value in enumerate(body.yielded) if value is body.args[0]]
        ops = tuple(Op(one.name, _now(one.args, kept, body.args[0]), one.results, one.blocks, one.attrs, one.site)
            for one in body.ops)
        return Op(op.name, op.args, op.results, (body.with_ops(ops), ), op.attrs, op.site) if kept else op
    program = everywhere(change)(made.program)
    dots = {op.site: op for op in program.walk() if op.name == "dot" and op.site in sites}
    return replace(made, program=program, late=frozenset(dots.values()))


def _now(arg: Any, kept: list[Value], trip: Value) -> Any:
    if isinstance(arg, tuple):
        return tuple(_now(one, kept, trip) for one in arg)
    return trip if isinstance(arg, Value) and arg in kept else arg


MUTANTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no release": in_tasks(without("pipe_release")),
    "no commit": in_tasks(without("pipe_commit")),
    "no wait for products": in_tasks(other("async_dot_wait", pending=lambda pending: 9)),
    "products are waited for one too late": in_tasks(other("async_dot_wait", pending=lambda pending: pending + 1)),
    "products of a loop are never waited for": in_tasks(other("async_dot_wait", pending=lambda pending: 9 if pending else 0)),
    "every release without its predicate": in_tasks(other("pipe_release", predicate=lambda given: None)),
    "a slot is given back before its product is waited for": in_tasks(swapped("async_dot_wait", "pipe_release")),
    "the release of the chunk behind": in_tasks(moved("pipe_release", "chunk", 1)),
    "a chunk is waited for in the other phase": in_tasks(moved("pipe_wait", "chunk", 2)),
    "a chunk of the wrong trip is read": in_tasks(moved("pipe_wait", "chunk", 1)),
    "a slot is taken a chunk early": in_tasks(moved("pipe_acquire", "chunk", -1)),
    "another chunk is committed": in_tasks(moved("pipe_commit", "chunk", 1)),
    "a counter is lost in an `if`": in_tasks(everywhere(lost_in_branches)),
    "both consumers read the same rows": in_tasks(other("buffer_slice", offsets=lambda given: (0, ) * len(given))),
    "a consumer stores over the other's rows": in_tasks(lambda program: _stored_over(program)),
    "no wait for the store before": in_tasks(without("tma_store_wait")),
    "the offset of a box": in_boxes(moved("descriptor_load", "offsets", 16, -1)),
    "the offset of a stored box": in_boxes(moved("descriptor_store", "offsets", 16, 0)),
    "the bound of a mask": in_descriptors(lambda one: replace(one, shape=tuple(extent + 16 for extent in one.shape))),
    "a stride": in_descriptors(lambda one: replace(one, strides=tuple(stride * 2
        for stride in one.strides[:-1]) + one.strides[-1:])),
    "extents exchanged": in_descriptors(lambda one: replace(one, shape=one.shape[::-1])),
    "the first trip twice": ("delayed", lambda made: replace(made, program=everywhere(first_trip_twice)(made.program))),
    "an operand of the wrong trip": ("delayed", _late_trip),
    "a small load of the trip before": ahead(everywhere(handed_on_late)),
    "the last trip loads one more": ahead(moved("icmpSLT", "rhs", 1)),
    "another one of the numbers that all are": in_boxes(moved("addptr", "rhs", 1)),
    "trips that are left begin a trip late": ("together", lambda made: replace(made, program=_late_rest(made.program))),
    "a raw slot is given back before it is read": in_tasks(swapped("local_load", "pipe_release")),
    "a tile is handed over before it is stored": in_tasks(swapped("local_store", "pipe_commit")),
    "one slot for tiles that are read a trip longer": in_tasks(lambda program: _one_slot(program)),
    "no guard against overlap": ("orchestrated", lambda made: replace(made, apart=frozenset())),
    "a line is left out of the text": in_text(r"\n *\S+\.reader\(\)\.release\(.*", ""),
    "another number in the text": in_text(r"chunk \+= 1", "chunk += 2"),
}


def _late_rest(program: Program) -> Program:
    """The second of two loops, of trips that are left behind groups, begins behind its first trip."""
    first, second, *_ = program.named("for")
    trip = Value(second.start.type)

    def change(op: Op) -> Any:
        if op is not second:
            return op
        return Op("add", (second.start, second.step), (trip, ), site=op.site), op.with_operands(start=trip)
    return everywhere(change)(program)


def _one_slot(program: Program) -> Program:
    """The pipes of what a task computes have one slot of the several that their buffers have."""
    pipes: dict[Value, Value] = {}

    def change(op: Op) -> Op:
        if op.name == "pipe_make" and op.fields[0].type.element.name == "bf16":
            pipes[op.result] = Value(replace(op.result.type, capacity=1), op.result.name)
            return Op(op.name, op.with_operands(capacity=1).args, (pipes[op.result], ), (), op.attrs, op.site)
        return op.with_operands(pipe=pipes[op.pipe]) if "pipe" in op.row.places and op.pipe in pipes else op
    return everywhere(change)(program)


def _stored_over(program: Program) -> Program:
    """The offsets of all stores of a tile are those of the first one."""
    def change(op: Op) -> Any:
        if op.name != "warp_specialize":
            return op
        blocks = []
        for block in op.blocks:
            consts = {one.result: one.value for one in block.ops if one.name == "constant"}
            sums = {one.result: one.lhs for one in block.ops
                if one.name == "add" and one.result.type == I32 and consts.get(one.rhs) == 64}
            blocks.append(block.with_ops(one.with_operands(offsets=tuple(sums.get(value, value) for value in one.offsets))
                                         if one.name == "descriptor_store" else one for one in block.ops))
        return Op(op.name, op.args, op.results, tuple(blocks), op.attrs, op.site)
    return everywhere(change)(program)


# ---- the corpus --------------------------------------------------------------------------------------------------------------


def _of(module, **sizes) -> Plain:
    kernel, grid, args, meta, _ = module.case(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


def _found(name: str) -> Plain:
    kernel, args, _ = CASES[name]
    return plain_of(kernel, (1, ), args, {"num_warps": 4}, "sm_90a")


def _one(kernel, args) -> Plain:
    return plain_of(kernel, (1, ), args, {"num_warps": 4}, "sm_90a")


CORPUS: dict[str, tuple[Callable[[], Plain], Plan]] = {
    "gemm": (lambda: _found("a consumer loads its rows"), Plan(stages=2)),
    "gemm, two consumers": (lambda: _found("a consumer loads its rows"), Plan(consumers=2, stages=2)),
    "gemm, stores that run on": (lambda: _one(*_tiles()), Plan(stages=2, stores=True)),
    "gemm, pointers": (lambda: _of(gemm_pointers, m=120, n=72, k=328, bm=64, bn=64), Plan(stages=2)),
    "attention": (lambda: _of(attention, t=512, bn=64), Plan(stages=2)),
    "products in some trips": (lambda: _one(*some_trips()), Plan(stages=2)),
    "small loads": (lambda: _of(small_loads, k=128), Plan(stages=2)),
    "trips together": (lambda: _of(small_loads, k=224), Plan(stages=2, together=3)),
    "transformed": (lambda: plain_of(*gemm_cast.both()[:4], "sm_90a"), Plan(stages=2, transform=4)),
    "what is stored is loaded": (lambda: _one(*overlapping()), Plan(stages=2)),
}


def _tiles():
    from tests.orchestrate.overlapping import tiles
    return tiles()


def hunted(mistake: str) -> Verdict:
    """The first program of the corpus on which a mistake is found."""
    step, change = MUTANTS[mistake]
    verdict = Verdict("not planted")
    for name, (make, plan) in CORPUS.items():
        planted, said = _proved(make(), plan, step, change)
        if said:
            return Verdict("found", name, said)
        if planted:
            verdict = Verdict("missed", name)
    return verdict


def _proved(plain: Plain, plan: Plan, step: str, change: Callable[[Any], Any]) -> tuple[bool, str]:
    """(whether a mistake changed anything, what was said against the kernel)."""
    with planted(step, change) as changed:
        try:
            one = steps.written(plain, plan)
        except Exception as error:
            if not changed[0]:
                raise
            return True, _line(error)
        if one.module is None or not changed[0]:
            return False, ""
        if one.refused and "overlaps" in one.refused:
            return False, ""
        try:
            proof = prove(one, seeds=4, limit=40)
        except Exception as error:
            return True, _line(error)
    return True, "" if proof.ok or "orchestrate a longer launch" in proof.wrong else proof.wrong


@contextmanager
def planted(step: str, change: Callable[[Any], Any]):
    """While it is open, a step makes the mistake; the list says whether it changed anything."""
    right, changed = getattr(steps, step), [False]

    def wrong(*given: Any, **more: Any) -> Any:
        before = right(*given, **more)
        after = change(before)
        changed[0] = changed[0] or _differs(before, after)
        return after

    with patch.object(steps, step, wrong):
        yield changed


def _differs(before: Any, after: Any) -> bool:
    if isinstance(before, str):
        return before != after
    for name in ("descriptors", "apart"):
        if getattr(before, name, None) != getattr(after, name, None):
            return True
    program = getattr(before, "program", None)
    return program is not None and _shape(program) != _shape(after.program)


def _shape(program: Program) -> list:
    """What tells a program from a changed one: its ops and what they take."""
    return [(op.name, tuple(id(value) for value in op.operands), getattr(op, "pending", None)
        if "pending" in op.row.places else None,
             str(op.offsets) if op.name == "buffer_slice" else None, getattr(op, "capacity", None)
             if "capacity" in op.row.places else None) for op in program.walk()]


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"


def main() -> None:
    for mistake in MUTANTS:
        verdict = hunted(mistake)
        print(f"| {mistake} | {verdict.how} | {verdict.program} | {verdict.by.splitlines()[0][:90] if verdict.by else ''} |",
            flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
