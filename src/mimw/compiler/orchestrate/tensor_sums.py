"""Where products add up in tensor memory: which of them share a sum, where it begins, and who reads it when.

Input: a plain program. Output: its `Sum`s. For example:

    for k: acc = dot(x, y, acc);  store(acc)        one Sum over the loop, which begins with zeros and is read behind the loop
    s = dot(q, k);  o = dot(p, v, o * fade)         a Sum each: of `s` from zeros, of `o` from a tile that another task has stored

A sum stays in tensor memory from trip to trip where the loop does nothing with it but add products. All others begin anew each
time, and are read into registers where their result is first used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Op, Program, Value
from ...ir.flow import bounds, loop_carries
from ..analysis.uses import Uses, uses_of
from ..passes.accumulate_dots import is_zero


@dataclass(eq=False)
class Sum:
    """`products` that add up in one place, in their order.

    loop        the loop from trip to trip of which the sum stays; None if it begins with the first product
    first       what it begins with: zeros (`from_zero`), or a tile that the task that computes stores
    result      the sum, as that task takes it
    repeats     its buffers are used again: a loop stands around it, or it has them in common with another sum
    root        the sum whose buffers and barriers this one uses: itself, or one of another block that is over before it begins
    depth       buffers that are used in turn: with two the next sum is begun while this one is read
    buffers, done, taken    for each task that computes: the buffers, the barriers at which the tensor core arrives when it is
                there, and those at which the task arrives when it has read the sum
    """

    products: list[Op]
    loop: Op | None
    first: Value
    result: Value
    from_zero: bool
    repeats: bool
    root: Sum | None = None
    depth: int = 1
    buffers: list[Value] = field(default_factory=list)
    done: list[Value] = field(default_factory=list)
    taken: list[Value] = field(default_factory=list)

    @property
    def head(self) -> Op:
        """The op at which it begins: the loop, or the first product."""
        return self.loop or self.products[0]

    @property
    def end(self) -> Op:
        """The op behind which it is complete."""
        return self.loop or self.products[-1]

    @property
    def is_given_back(self) -> bool:
        """True if the task that reads it says so; a task that stores what the next sum begins with has read the last one."""
        return self.from_zero and self.root.repeats

    @property
    def label(self) -> str:
        """The name that the author gave it."""
        return self.result.name or "sum"

    @property
    def name(self) -> str:
        """The name of the number of its turn."""
        return f"{self.label}_turn"


def sums_of(program: Program, products: set[Op], depth: int = 2) -> list[Sum]:
    """The sums of these products, in the order in which they begin. Those that follow each other, tile by tile, have `depth` places
    in turn."""
    uses, found, done = uses_of(program), [], set()
    for op in sorted(products, key=uses.position.__getitem__):
        if op not in done:
            found.append(_over_loop(uses, op, products) or _alone(uses, op))
            done.update(found[-1].products)
    for at, one in enumerate(found):
        one.root = next((other for other in found[:at] if other.root is other and all(
            _follows(uses, one, member) for member in found[:at] if member.root is other)), one)
        one.root.repeats = one.root.repeats or one.root is not one
    for one in found:
        one.root.depth = max(one.root.depth, depth if one.loop is not None and uses.loops(one.loop) else 1)
    return found


def _follows(uses: Uses, one: Sum, other: Sum) -> bool:
    """True if a sum may have the place of one that is over: the same tile in another block, and begun in the same way. In one
    block both are wanted, so that the products of one run beside what is done with the other."""
    return one.result.type == other.result.type and one.from_zero == other.from_zero and \
        uses.place[one.head].block is not uses.place[other.head].block and uses.last[other.end] < uses.position[one.head]


def _alone(uses: Uses, op: Op) -> Sum:
    return Sum([op], None, op.acc, op.result, is_zero(op.acc, uses.definition), bool(uses.loops(op)))


def _over_loop(uses: Uses, op: Op, products: set[Op]) -> Sum | None:
    """The sum that a loop carries, if all that happens to it in a trip are products that follow each other in its body."""
    place = uses.place[op]
    loop = place.parent
    carry = next((one for one in loop_carries(loop) if one.argument is op.acc), None) if loop and loop.name == "for" else None
    if carry is None:
        return None
    chain, value = [], carry.argument
    while (following := _only_product(uses, value, products)) is not None and uses.place[following].block is place.block:
        chain.append(following)
        value = following.result
    if not chain or carry.after is not value or len(uses.of(value)) != 1:
        return None
    return Sum(chain, loop, carry.init, carry.result, is_zero(carry.init, uses.definition), bool(uses.loops(loop)))


def _only_product(uses: Uses, value: Value, products: set[Op]) -> Op | None:
    """The product that adds to a tile, if nothing else takes it."""
    taken = uses.of(value)
    op = taken[0].op if len(taken) == 1 else None
    return op if op in products and op.acc is value and value not in (op.a, op.b) else None


def may_be_empty(uses: Uses, sum_: Sum) -> bool:
    """True if no product may have been issued, so that tensor memory holds nothing: of a loop that may have no trip."""
    if sum_.loop is None or not sum_.from_zero:
        return False
    start, end, _ = (_number(uses, value) for value in bounds(sum_.loop))
    return start is None or end is None or start >= end


def _number(uses: Uses, value: Value) -> int | None:
    op = uses.definition.get(value)
    while op is not None and op.name == "int_cast":
        op = uses.definition.get(op.value)
    return op.value if op is not None and op.name == "constant" else None
