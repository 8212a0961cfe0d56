"""Products that may be done a trip later: in a loop with two products or more, the last one, whose sum the loop only carries.

Input: a plain program and one of its loops. Output: a `LateProduct`, a `Remark` that says why there is none, or None for a loop
without two products of its own. For example, of attention's loop:

    for i in range(0, T, BN): s = tl.dot(q, k[i].T); p, f = softmax(s); acc = tl.dot(p, v[i], acc * f)
    first, product      the product of `s`, and that of `acc`
    kept                of the trip before: `i`, `p` and `acc * f`
    again               ops that are done a trip later, for the product alone: the load of `v[i]`

In a loop of three products or more, as of attention's backward, what the last one takes on its right may be taken in its own trip
as well: then it is loaded twice.

A load that is done later is moved over what the loop writes: it is refused for an array of the same parameter. Arrays of different
parameters are taken to be apart, and listed as such: who launches the program asks whether they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir import Block, Op, Program, Site, Tensor, Value
from ...ir.flow import induction, loop_carries
from ..analysis.remarks import Remark
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, parameters_behind

_MOVED_OVER = frozenset(("pure", "read", "control", "debug"))   # effects that a load may be moved over


@dataclass(frozen=True)
class LateProduct:
    """`product` of `loop` may be done in the next trip, right behind `first`, the last of the products with which a trip starts.
    `argument` is its sum in a trip.

    again       ops of the body that are done with it, in order; `only` are those that nothing else takes
    kept        values of its own trip that they take
    apart       (loaded, written) names of parameters whose arrays may not overlap
    """

    loop: Op
    first: Op
    product: Op
    argument: Value
    again: tuple[Op, ...]
    only: frozenset[Op]
    kept: tuple[Value, ...]
    apart: frozenset[tuple[str, str]]


class _Stays(Exception):

    def __init__(self, site: Site, why: str):
        super().__init__(why)
        self.remark = Remark(f"no product of the loop is done a trip later: {why}", site)


def late_product(program: Program, loop: Op) -> LateProduct | Remark | None:
    """The product of a loop that may be done a trip later, or why not; None for a loop with fewer than two products of its own."""
    uses = uses_of(program)
    products = [op for op in _inside(loop) if "dot" in op.row.traits]
    if sum(uses.loops(op)[-1] is loop for op in products) < 2:
        return None
    try:
        return _Search(program, uses, loop, products).found()
    except _Stays as stays:
        return stays.remark


def _inside(op: Op) -> Iterator[Op]:
    return (inner for block in op.blocks for top in block.ops for inner in top.walk())


class _Search:

    def __init__(self, program: Program, uses: Uses, loop: Op, products: list[Op]):
        self.program, self.uses, self.loop, self.products = program, uses, loop, products
        self.body: Block = loop.blocks[0]

    def found(self) -> LateProduct:
        first, product = self._first_and_last()
        argument = self._carried_sum(product)
        self._check_order(first, product, argument)
        again, kept = self._taken(product)
        ops = tuple(op for op in self.body.ops if op in again)
        only = self._only(ops, product)
        loads = [op for op in ops if "read" in op.row.effects]
        for op in loads:
            if op not in only and len(self.products) == 2:
                raise _Stays(op.site, f"`{op.row.word}` is taken in its own trip as well, not by line {product.site.line} alone")
        return LateProduct(self.loop, first, product, argument, ops, only, kept, self._apart(loads))

    def _first_and_last(self) -> tuple[Op, Op]:
        if self.loop.name != "for":
            raise _Stays(self.loop.site, f"only of `for` loops it is known which trip is the last, not of `{self.loop.name}`")
        for op in self.products:
            if self.uses.place[op].block is not self.body:
                raise _Stays(op.site, "a product stands in a condition or in a loop of its own")
        product = self.products[-1]
        if product.name != "dot":
            raise _Stays(product.site, f"`{product.row.word}` is not followed")
        return self._issued_together(), product

    def _issued_together(self) -> Op:
        """The last of the trip's products that start one behind the other, as none takes what the one before gives."""
        together = self.products[:1]
        for op in self.body.ops[self.body.ops.index(together[0]) + 1:]:
            if op is self.products[-1] or op.blocks or any(self.uses.definition[value] in together for value in op.operands):
                break
            together += [op] if op in self.products else []
        return together[-1]

    def _carried_sum(self, product: Op) -> Value:
        """The argument of the body that is the sum of the trips before."""
        last = self.body.ops[-1]
        for use in self.uses.of(product.result):
            if use.op is not last:
                raise _Stays(use.op.site, f"it takes the product of line {product.site.line} in its own trip")
        found = [carry for carry in loop_carries(self.loop) if carry.after is product.result]
        if len(found) != 1:
            raise _Stays(product.site, f"the loop carries its result as {len(found)} values")
        return found[0].argument

    def _check_order(self, first: Op, product: Op, argument: Value) -> None:
        """The first product of a trip can be done before the last one of the trip before."""
        if first not in self._slice(product):
            raise _Stays(product.site, f"it takes nothing of the product of line {first.site.line}")
        together = self.products[:self.products.index(first) + 1]
        for op in {*together, *(op for one in together for op in self._slice(one))}:
            for value in _operands(op):
                if value in self.body.args[1:] and isinstance(value.type, Tensor) and value.type.element.is_float:
                    raise _Stays(first.site, "the first product takes a tile that the loop carries")
        for op in self.body.ops[:self.body.ops.index(first) + 1]:
            if argument in _operands(op):
                raise _Stays(op.site, f"it takes the sum of line {product.site.line} before the first product of its trip")

    def _slice(self, op: Op) -> set[Op]:
        """Ops of the body from which an op's operands are computed."""
        found, todo = set(), [op]
        while todo:
            for value in _operands(todo.pop()):
                made = self.uses.definition[value]
                if made is not None and made not in found and self.uses.place[made].block is self.body:
                    found.add(made)
                    todo.append(made)
        return found

    def _taken(self, product: Op) -> tuple[set[Op], tuple[Value, ...]]:
        """Ops that are done again for the product of the trip before, and the values of that trip that are kept for them."""
        again, kept = self._remade(product.b)
        for value in (product.a, product.acc):
            try:
                ops, taken = self._remade(value)
            except _Stays:
                ops, taken = set(), [value]
            if not set(taken) <= {induction(self.loop)}:
                ops, taken = set(), [value]
            again |= ops
            kept += taken
        return again, tuple(dict.fromkeys(kept))

    def _remade(self, value: Value) -> tuple[set[Op], list[Value]]:
        """Ops that make a value once more, a trip later, and the body's arguments that they take."""
        found, kept, todo = set(), [], [value]
        while todo:
            value = todo.pop()
            op = self.uses.definition[value]
            if value in self.body.args:
                kept.append(value)
            elif op is not None and op not in found and self.uses.place[op].block is self.body:
                if not _may_be_late(op):
                    raise _Stays(op.site, f"the product takes on its right what `{op.row.word}` makes in its own trip")
                found.add(op)
                todo += op.operands
        return found, kept

    def _only(self, again: tuple[Op, ...], product: Op) -> frozenset[Op]:
        found: set[Op] = {product}
        for op in reversed(again):
            if all(use.op in found for result in op.results for use in self.uses.of(result)):
                found.add(op)
        return frozenset(found - {product})

    def _apart(self, loads: list[Op]) -> frozenset[tuple[str, str]]:
        """Parameters of loads and writes of the loop; refused where a load would be moved over a write that it may read."""
        apart: set[tuple[str, str]] = set()
        for load in loads:
            names = [parameters_behind(self.program, address) for address in accessed(load, "read")]
            for op in _inside(self.loop):
                for written in self._written(op, load):
                    for read in names:
                        if read is None or written is None or read & written:
                            raise _Stays(load.site, f"`{load.row.word}` may load what `{op.row.word}` of line {op.site.line} "
                                         "writes")
                        apart |= {(one, other) for one in read for other in written}
        return frozenset(apart)

    def _written(self, op: Op, load: Op) -> list[set[str] | None]:
        """The parameters of each address that an op writes to; refused if no load may be moved over the op."""
        addresses, effects, traits = list(accessed(op, "write")), op.row.effects, op.row.traits
        harmless = effects <= _MOVED_OVER or "assembly" in traits and bool(op.is_pure)
        stores = bool(addresses) and effects <= {*_MOVED_OVER, "write"} and "assembly" not in traits
        if not harmless and not stores or "atomic" in traits or _is_volatile(op):
            raise _Stays(load.site, f"`{load.row.word}` is not moved over `{op.row.word}` of line {op.site.line}")
        return [parameters_behind(self.program, address) for address in addresses]


def _operands(op: Op) -> Iterator[Value]:
    """The operands of an op, and of the ops in its regions."""
    return (value for one in op.walk() for value in one.operands)


def _may_be_late(op: Op) -> bool:
    """True of arithmetic, and of loads that may be done at another time."""
    if op.blocks or "dot" in op.row.traits:
        return False
    loads = op.row.brings_tile or op.row.loads
    return "pure" in op.row.effects or loads and not _is_volatile(op)


def _is_volatile(op: Op) -> bool:
    return "is_volatile" in op.row.places and bool(getattr(op.is_volatile, "value", op.is_volatile))
