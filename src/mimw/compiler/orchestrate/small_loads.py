"""Small loads of a loop run a trip ahead, into registers: plain program to plain program.

Input: a plain program. Output: `LoadedAhead`: the program in which loops with a product carry what a trip's small loads gave to
the next trip, and a remark for each such load. For example, of the scales of blocks:

    for k in range(steps): acc += tl.dot(x, y) * tl.load(scales + k)                becomes

    s = tl.load(scales, mask=0 < steps)
    for k in range(steps): t = tl.dot(x, y); next = tl.load(scales + k + 1, mask=k + 1 < steps); acc += t * s; s = next

A consumer's small loads are no chunk of a pipe, and one that stands behind a product's wait is awaited with no product under way.
A load of the next trip is started beside this trip's product. The last trip loads nothing: what lies behind the last scale nobody
has to own. Loads by which other loads find their places stay: a producer does them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import I1, Block, Builder, Op, Program, Tensor, Value
from ...ir.flow import bounds, induction, terminator
from ...ir.types import like
from ..analysis.remarks import Remark
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, parameters_behind, written
from ..passes.ahead import Ahead, computed_ahead, replaced
from .memory_order import acquires
from .rings import is_read_only

MOST_ELEMENTS = 4       # of a thread, if a tile's elements are dealt out to four warps
THREADS = 128


@dataclass(frozen=True)
class LoadedAhead:
    """`program` with its small loads a trip ahead. `apart` are (loaded, written) names of parameters: the program is right if their
    arrays do not overlap."""

    program: Program
    remarks: tuple[Remark, ...] = ()
    apart: frozenset[tuple[str, str]] = frozenset()


def loaded_ahead(program: Program, outer: bool = False, shared: Op | None = None) -> LoadedAhead:
    """The program with the small loads of its loops with products a trip ahead; itself if there are none. `outer`: of the loops
    around these instead, as one over tiles, whose next tile's loads are under way beside this tile's products. A loop whose trips
    consumers share out (`shared`) stays as it is: the next trip is another consumer's."""
    found, remarks = _found(program, outer, shared)
    if not found:
        return LoadedAhead(program, tuple(remarks))
    names = {name for loads in found.values() for load in loads for address in accessed(load, "read")
             for name in parameters_behind(program, address) or ()}
    body = _Writer(program, found).block(program.body)
    apart = frozenset((read, write) for read in names for write in written(program) or ())
    return LoadedAhead(replace(program, body=body), tuple(remarks), apart)


# ---- which loads -----------------------------------------------------------------------------------------------------------


def _found(program: Program, outer: bool, shared: Op | None) -> tuple[dict[Op, dict[Op, Ahead]], list[Remark]]:
    """By the loop: its small loads, each with what computes its address; and what is said of all small loads."""
    uses, writes = uses_of(program), written(program)
    found: dict[Op, dict[Op, Ahead]] = {}
    remarks = []
    for loop in program.named("for"):
        own = any("dot" in op.row.traits for op in loop.blocks[0].ops)
        if loop is shared or own == outer or outer and not _multiplies(loop):
            continue
        in_order = next((op for op in loop.walk() if acquires(op)), None)
        for load in loop.blocks[0].ops:
            if not _is_small(load) or _leads_to_an_address(uses, loop, load):
                continue
            ahead = computed_ahead(uses, loop, load.operands)
            why = _why_in_its_trip(program, load, in_order, writes, ahead)
            remarks.append(Remark(f"the load of {_name(program, load)} " + (f"stays in its trip: {why}" if why else
                                  "runs a trip ahead, into registers"), load.site))
            if not why:
                found.setdefault(loop, {})[load] = ahead
    return found, remarks


def _multiplies(op: Op) -> bool:
    """True of a loop or branch with products."""
    return any("dot" in inner.row.traits for inner in op.walk())


def _name(program: Program, load: Op) -> str:
    names = parameters_behind(program, load.pointer)
    return " or ".join(sorted(names)) if names else "an array"


def _is_small(op: Op) -> bool:
    """True of a load by pointers of a few elements a thread."""
    if not op.row.loads or op.row.ours or bool(getattr(op.is_volatile, "value", op.is_volatile)):
        return False
    type_ = op.result.type
    return not isinstance(type_, Tensor) or type_.numel <= MOST_ELEMENTS * THREADS


def _leads_to_an_address(uses: Uses, loop: Op, load: Op) -> bool:
    """True if the address or the mask of another access of the loop takes what a load gives, or if that decides what runs."""
    inside, todo, seen = set(loop.walk()), [load.result], set()
    while todo:
        value = todo.pop()
        for op in (use.op for use in uses.of(value) if use.op in inside):
            places = op.row.places
            if op.name == "for" and value in op.inits and value not in bounds(op):
                at = op.inits.index(value)
                todo += op.blocks[0].args[at + 1], op.results[at]
                continue
            if op.row.hands_on or op.name == "condition":
                return True
            taken = [getattr(op, name) for name in ("pointer", "mask", "descriptor", "offsets") if name in places]
            if any(value is one or isinstance(one, tuple) and value in one for one in taken):
                return True
            if op not in seen and "dot" not in op.row.traits:
                seen.add(op)
                todo += op.results
    return False


def _why_in_its_trip(program: Program, load: Op, in_order: Op | None, writes: set[str] | None, ahead: Ahead | Op) -> str:
    if isinstance(ahead, Op):
        return f"its address follows from `{ahead.row.word or ahead.name}` of line {ahead.site.line}"
    if in_order is not None:
        return f"it is not moved over `{in_order.row.word or in_order.name}` of line {in_order.site.line}"
    if not is_read_only(program, load, writes):
        return "the kernel may write the array that it reads"
    return ""


# ---- the loops -------------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes blocks anew. What a load gave stands for it as an argument of the body, so all that takes it stays as it is."""

    def __init__(self, program: Program, found: dict[Op, dict[Op, Ahead]]):
        self.found, self.b = found, Builder(program.site)

    def block(self, block: Block) -> Block:
        return self.b.anew(block, self.found, lambda loop: self._loop(loop, self.found[loop]))

    def _loop(self, loop: Op, loads: dict[Op, Ahead]) -> None:
        body, b = loop.blocks[0], self.b
        start, end, step = bounds(loop)
        b.site = loop.site
        some = b.emit("icmpSLT", (start, end))
        env = dict(zip(body.args, (start, *loop.inits)))
        first = [self._load(load, ahead, env, some) for load, ahead in loads.items()]
        outside, following = b.open(), []
        for op in body.ops:
            if op is terminator(body):
                b.emit("yield", ((*op.values, *following), ), op.site)
            elif op not in loads:
                if op.blocks and _multiplies(op) and not following:
                    following = self._following(loop, loads)
                b.ops.append(op.with_blocks(self.block))
                if "dot" in op.row.traits and not following:
                    following = self._following(loop, loads)
        if terminator(body) is None:        # of the loop over tiles, which carries nothing else
            b.emit("yield", (tuple(following), ), loop.site)
        others = Block((*body.args, *(load.result for load in loads)), b.close(outside))
        results = (*loop.results, *(Value(load.result.type, load.result.name) for load in loads))
        b.ops.append(Op("for", (start, end, step, (*loop.inits, *first)), results, (others, ), loop.attrs, loop.site))

    def _following(self, loop: Op, loads: dict[Op, Ahead]) -> list[Value]:
        """The loads of the next trip, behind the first product of this one, which is under way by then; in front of a loop inside
        that multiplies."""
        _, end, step = bounds(loop)
        b, counter = self.b, induction(loop)
        b.site = loop.site
        then = b.emit("add", (counter, step), label=counter.name)
        some = b.emit("icmpSLT", (then, end))
        env, found = {counter: then}, []
        for load, ahead in loads.items():
            env |= ahead.next(b, {}) if ahead.carried else {}
            found.append(self._load(load, ahead, env, some))
        return found

    def _load(self, load: Op, ahead: Ahead, env: dict[Value, Value], some: Value) -> Value:
        """A load in the trip whose arguments are in `env`, if there is one. What has been computed for it is there afterwards."""
        b, type_ = self.b, load.result.type
        env |= (now := ahead.values(b, env))
        pointer = replaced(load.pointer, now, b)
        mask = b.emit("splat", (like(type_, I1), some), load.site) if isinstance(type_, Tensor) else some
        other = None
        if load.name == "masked_load":
            other = replaced(load.other, now, b)
            if load.mask is not None:
                mask = b.emit("and", (mask, replaced(load.mask, now, b)), load.site)
        return b.emit("masked_load", (pointer, mask, other, load.cache_policy, load.is_volatile), load.site, label=load.result.name)
