"""Wrong kernels out of right ones: every synchronising op of a program changed, one source line and one way at a time.

What synchronises is read off the op table, so a new word is mutated from the day it is there. A mutant is a program as
recorded, its pipes expanded; the judge runs the compiler's passes on it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from mimw.compiler.passes import count_moves, drop_unused, expand_pipes
from mimw.ir import OPS, Block, Op, Program, Value
from mimw.ir.types import I32

# Synchronising by the table, but nothing that a program can get wrong by leaving it out: regions, allocations, clocks, votes.
_NOT_MUTATED = {"warp_specialize", "alloc_barriers", "clock64", "vote_ballot", "barrier", "grid_dependency_wait",
                "grid_dependency_launch_dependents", "sched_barrier"}
SYNC = {name for name, row in OPS.items() if "sync" in row.effects} - _NOT_MUTATED | {"async_commit"}
ATOMIC = {name for name in OPS if name.startswith("atomic_")}
ORDERED = SYNC | ATOMIC | {name for name, row in OPS.items() if row.ours and row.effects & {"async", "read", "write"}} - {
    "alloc_barriers", "local_alloc", "alias_storage", "alias_overlap", "clock64", "thread_id"}
_TWICE = {"barrier_arrive", "barrier_expect", "barrier_wait", "remote_arrive", "named_barrier_wait", "named_barrier_arrive",
          "cluster_barrier"}
_WAITS_FOR_GROUPS = ("async_dot_wait", "tma_store_wait", "async_wait", "tdm_wait")
_INDEXED = ("buffer_index", "barrier_index")


@dataclass(frozen=True)
class Mutant:
    """One change: what it is called, the op and source position it was made at, and the program, made when somebody asks: who draws
    three of a hundred has three made."""

    change: str
    word: str
    site: object
    made: Callable[[], Program] = field(repr=False)

    @cached_property
    def program(self) -> Program:
        return self.made()


def mutants(program: Program) -> Iterator[Mutant]:
    """Every mutant of a recorded program, each (op, source line with its calls) once; pipes as the barriers they become."""
    program = _without_tokens(drop_unused(count_moves(expand_pipes(program))))
    for (name, site), op in _lines(program).items():
        for change, edit in (*_edits(op, program.cluster_size), *(_far_edits(op) if reaches_gpus(program) else ())):
            yield Mutant(change, name, site, partial(_each, program, name, site, edit))
    yield from _swapped(program)


def _without_tokens(program: Program) -> Program:
    """The program without the tokens of asynchronous copies, which order nothing: what made one may then be dropped."""

    def op_of(op: Op) -> Op:
        params = OPS[op.name].params
        if "tokens" in params or "token" in params:
            op = _with(op, "tokens", ()) if "tokens" in params else _with(op, "token", None)
        return replace(op, blocks=tuple(map(block_of, op.blocks))) if op.blocks else op

    def block_of(block: Block) -> Block:
        return replace(block, ops=tuple(map(op_of, block.ops)))

    return replace(program, body=block_of(program.body))


def _lines(program: Program) -> dict:
    used = SYNC | ATOMIC | {"alloc_barriers", "tma_load_multicast", "clc_query", "peer_pointer", *_INDEXED}
    return {(op.name, op.site): op for op in program.walk() if op.name in used}


def _edits(op: Op, ctas: int) -> Iterator[tuple[str, Callable[[Op], list[Op]]]]:
    """(what the change is called, the ops in place of the op) for every change of an op."""
    name = op.name
    if name == "async_dot_wait":
        yield "drop", lambda op: [_with(op, "pending", 99)]
    elif name == "barrier_test":  # the flag is true without a look
        yield "drop", lambda op: [replace(op, name="constant", args=(1, op.result.type))]
    elif name in SYNC:
        yield "drop", lambda op: []
    if name in _TWICE:
        yield "duplicate", lambda op: [op, op]
    if name in _WAITS_FOR_GROUPS:
        yield "wait for one less", lambda op: [_with(op, "pending", _of(op, "pending") + 1)]
    if name == "barrier_wait":
        yield "shift phase", lambda op: _arithmetic(op, "phase", "xor", 1)
    if name in ("barrier_arrive", "remote_arrive"):
        yield "count + 1", lambda op: [_with(op, "count", _of(op, "count") + 1)]
    if name in SYNC and isinstance(_of(op, "predicate"), Value):
        yield "drop predicate", lambda op: [_with(op, "predicate", None)]
    if name == "remote_arrive" and ctas > 1:
        yield "wrong peer", lambda op: [_with(op, "rank", (_of(op, "rank") + 1) % ctas)] if isinstance(
            _of(op, "rank"), int) else _arithmetic(op, "rank", "xor", 1)
    if name == "tma_load_multicast" and len(_of(op, "targets")) > 1:
        yield "one target less", lambda op: [_with(op, "targets", _of(op, "targets")[:-1])]
    if name.startswith("named_barrier"):
        yield "threads + 32", lambda op: [_with(op, "threads", _of(op, "threads") + 32)]
        yield "next barrier", lambda op: [_with(op, "barrier", 8 + (_of(op, "barrier") + 1) % 8)]
    if name == "clc_query":     # who asks so ends, and the work that the answer brought is nobody's
        yield "taken for a refusal", lambda op: [Op("constant", (-1, I32), (result, ), site=op.site) for result in op.results]
    if name == "alloc_barriers":
        yield "count + 1", lambda op: [_with(op, "arrive_count", op.args[1] + 1)]
        if op.args[1] > 1:
            yield "count - 1", lambda op: [_with(op, "arrive_count", op.args[1] - 1)]
    if name == "barrier_expect" and isinstance(_of(op, "bytes"), int):
        for label, change in (("bytes + 16", lambda n: n + 16), ("bytes - 16", lambda n: n - 16),
                              ("half the bytes", lambda n: n // 2)):
            yield label, lambda op, change=change: [_with(op, "bytes", change(_of(op, "bytes")))]
    if name in _INDEXED and op.args[0].type.count > 1:
        yield f"swap {name.partition('_')[0]}s", _next_index
    if name in ATOMIC:
        order, scope = _of(op, "order"), _of(op, "scope")
        for weaker in _weaker(order):
            yield f"order {weaker.name.lower()}", lambda op, weaker=weaker: [_with(op, "order", weaker)]
        if scope.name != "CTA":
            yield "scope cta", lambda op: [_with(op, "scope", type(scope).CTA)]


def reaches_gpus(program: Program) -> bool:
    """Whether the kernel reaches other GPUs: then the scope of an atomic may be too narrow in one way more."""
    return bool(program.where(lambda row: "world" in row.places))


def _far_edits(op: Op) -> Iterator[tuple[str, Callable[[Op], list[Op]]]]:
    """As `_edits`, what a kernel on several GPUs can get wrong besides."""
    scope = _of(op, "scope")
    if op.name in ATOMIC and scope.name == "SYSTEM":
        yield "scope gpu", lambda op: [_with(op, "scope", type(scope).GPU)]
    if op.name == "fence" and scope == "sys":
        yield "scope gpu", lambda op: [_with(op, "scope", "gpu")]
    if op.name == "signal_wait":
        yield "scope gpu", lambda op: [_with(op, "scope", "gpu")]
        yield "order relaxed", lambda op: [_with(op, "sem", "relaxed")]
        yield "a round less", lambda op: _arithmetic(op, "value", "sub", 1)
        yield "a round more", lambda op: _arithmetic(op, "value", "add", 1)
    if op.name == "peer_pointer":
        yield "next peer", lambda op: _arithmetic(op, "gpu", "xor", 1)


def _weaker(order) -> list:
    """The weaker orders of an atomic."""
    kind = type(order)
    return {"ACQUIRE_RELEASE": [kind.ACQUIRE, kind.RELEASE, kind.RELAXED], "ACQUIRE": [kind.RELAXED],
            "RELEASE": [kind.RELAXED]}.get(order.name, [])


def _of(op: Op, param: str):
    params = OPS[op.name].params
    return op.args[params.index(param)] if param in params else None


def _with(op: Op, param: str, value) -> Op:
    at = OPS[op.name].params.index(param)
    return replace(op, args=(*op.args[:at], value, *op.args[at + 1:]))


def _constant(number: int, op: Op, type_=I32) -> Op:
    return Op("constant", (number, type_), (Value(type_), ), site=op.site)


def _arithmetic(op: Op, param: str, name: str, number: int) -> list[Op]:
    operand = _of(op, param)
    constant = _constant(number, op, operand.type)
    other = Op(name, (operand, constant.result), (Value(operand.type), ), site=op.site)
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


# ---- two ops that change places --------------------------------------------------------------------------------------

def _swapped(program: Program) -> Iterator[Mutant]:
    """A synchronising op and the next ordered one of its block change places: releases come early, waits late."""
    pairs = {}
    for block in _blocks(program.body):
        ordered = [op for op in block.ops if op.name in ORDERED or op.blocks]
        for one, other in zip(ordered, ordered[1:]):
            if {one.name, other.name} & SYNC and not (one.blocks or other.blocks) and _may_swap(block, one, other):
                pairs.setdefault((one.name, one.site, other.name, other.site), None)
    for first, site, second, other_site in pairs:
        change = "release early" if second.endswith("arrive") else "wait late" if first.endswith("wait") else "swap"
        yield Mutant(f"{change} (past {second}, line {other_site.line})", first, site,
                     partial(_with_a_swap, program, (first, site), (second, other_site)))


def _with_a_swap(program: Program, first, second) -> Program:
    return replace(program, body=_swap(program.body, first, second))


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
    moves = {id(other): one for one, other in zip(ordered, ordered[1:]) if (one.name, one.site) == first
             and (other.name, other.site) == second and _may_swap(replace(block, ops=tuple(ops)), one, other)}
    moved = {id(one) for one in moves.values()}
    result = []
    for op in ops:
        if id(op) not in moved:
            result.append(op)
        if id(op) in moves:
            result.append(moves[id(op)])
    return replace(block, ops=tuple(result))
