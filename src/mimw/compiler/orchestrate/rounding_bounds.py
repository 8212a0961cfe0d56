"""By how much results may differ from those of a program that multiplies its scales one by one: a program that computes it.

Input: a program whose scales are joined, and its `Join`s. Output: `Bounds`: the program that stores, in place of each result, a
bound of its distance from the same result of the other program, and the arrays for which it does so. For example:

    r = p * (sa * sb); acc += r; store(c, acc.to(bf16))     becomes, with u = 2^-24 and u_bf16 = 2^-8,
    e = |r| * 4.04 u; E += e, and 2.02 u |acc|; store(c, (E + (2 |acc| + E) * u_bf16).to(bf16))

It is a running error analysis. Of n scales both programs round n products, so each is within n u / (1 - n u) of the exact product,
and they are within twice that of each other. Behind it both do the same on values that are `e` apart: a sum adds the distances of
what it adds, a product multiplies them, and each rounding adds u of either value. The bounds are computed in fp32, a little larger
than they have to be. Fewer roundings, as of a multiply-add, keep within them. Not in them are products of scales that leave fp32's
range, as of two scales of 1e-30.

What has no rule (an exponential, a reduction, a comparison, an atomic) has no bound: `NoBound` names its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...ir import Block, Builder, Op, Program, Scalar, Site, Tensor, Type, Value, like
from ...ir.flow import all_carries, bounds
from ..analysis.uses import uses_of
from ..analysis.written import parameters_behind

FP32 = Scalar("fp32")
DIGITS = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8, "fp8e4nv": 4, "fp8e5": 3}      # binary ones, the first one included
LEAST = {"fp64": 0.0, "fp32": 0.0, "fp16": 2.0**-24, "bf16": 2.0**-133, "fp8e4nv": 2.0**-9, "fp8e5": 2.0**-16}
MORE = 1 + 2.0**-20     # for the roundings of the bounds themselves


class NoBound(Exception):
    """A value that has no bound, at `site`."""

    def __init__(self, why: str, site: Site):
        super().__init__(why)
        self.site = site


@dataclass(frozen=True)
class Join:
    """A product that is multiplied by scales, of which there were `scales`, joined: the value `result` of the program."""

    result: Value
    scales: int
    site: Site


@dataclass(frozen=True)
class Bounds:
    """`program` stores bounds to the arrays `names`, by the name of the parameter; each is rounded to the array's type, so that it
    may be too small by that rounding. All other arrays have to be equal."""

    program: Program
    names: frozenset[str]


def rounding(element: str) -> tuple[float, float]:
    """(largest relative, largest absolute error) of rounding to a type."""
    return 2.0**-DIGITS[element], LEAST[element]


def bounds_of(program: Program, joins: Sequence[Join]) -> Bounds:
    """The program that computes the bounds.

    errors:    NoBound with the line of what has no rule
    """
    writer = _Writer(program, joins)
    return Bounds(replace(program, body=writer.block(program.body)), frozenset(writer.names))


def _apart(program: Program, joins: Sequence[Join]) -> set[Value]:
    """All values that are others in the other program."""
    found, before = {one.result for one in joins}, 0
    while len(found) > before:
        before = len(found)
        found |= {carry.target for carry in all_carries(program) if carry.source in found}
        found |= {result for op in program.walk() if not op.row.hands_on and not found.isdisjoint(op.operands)
                  for result in op.results}
    return found


class _Writer:
    """Writes the program with a second value, the bound, beside each that is another one in the other program."""

    def __init__(self, program: Program, joins: Sequence[Join]):
        self.b, self.uses = Builder(program.site), uses_of(program)
        self.joins = {one.result: one for one in joins}
        self.apart = _apart(program, joins)
        self.bound: dict[Value, Value] = {}
        self.cast: dict[Type, Op] = {}
        self.names: set[str] = set()
        for op in program.walk():
            if _is_store(op) and op.value in self.apart:
                names = parameters_behind(program, op.pointer if "pointer" in op.row.places else op.descriptor)
                if names is None:
                    raise NoBound("an address that is loaded says where a result goes", op.site)
                self.names |= names
        self.stores = {op for op in program.walk() if _is_store(op) and self.names.intersection(parameters_behind(
            program, op.pointer if "pointer" in op.row.places else op.descriptor) or self.names)}

    def block(self, block: Block, extra: Sequence[Value] = ()) -> Block:
        outside = self.b.open()
        for op in block.ops:
            self._op(op)
        return Block((*block.args, *extra), self.b.close(outside))

    # ---- ops -------------------------------------------------------------------------------------------------------------------

    def _op(self, op: Op) -> None:
        self.b.site = op.site
        if op in self.stores:
            value = op.value
            stored = self._stored(value) if value in self.apart else self.b.constant(0, value.type)
            self.b.ops.append(op.with_operands(value=stored))
        elif op.results and op.results[0] in self.joins:
            if any(value in self.apart for value in op.operands):
                raise NoBound("it takes what follows from another product with joined scales", op.site)
            self.b.ops.append(op)
            one = self.joins[op.result]
            self.bound[one.result] = self._times(self._size(one.result), 2.02 * one.scales * 2.0**-24)
        elif op.row.hands_on and (carried := [one for one in op.results if one in self.apart]):
            self._region(op, carried)
        elif "terminator" in op.row.traits:
            self.b.ops.append(op)
        elif any(value in self.apart for value in op.operands) and not op.row.hands_on:
            self.b.ops.append(op)
            self._rule(op)
        else:
            self.b.ops.append(op.with_blocks(self.block))

    def _region(self, op: Op, carried: list[Value]) -> None:
        """A loop or a branch that hands on more: the bounds of what it hands on."""
        if op.name != "for" and op.name != "if":
            self._refuse(op)
        places = [op.results.index(value) for value in carried]
        results = tuple(Value(like(value.type, FP32), value.name) for value in carried)
        args, extra = op.args, ()
        if op.name == "for":
            inits = tuple(self._bound(op.inits[at]) for at in places)
            extra = tuple(Value(one.type, one.name) for one in results)
            self.bound.update(zip((op.blocks[0].args[at + 1] for at in places), extra))
            args = (*bounds(op), (*op.inits, *inits))
        else:
            args = (op.condition, (*op.types, *(value.type for value in results)))
        blocks = []
        for block in op.blocks:
            made = self.block(block, extra)
            outside = self.b.open()
            self.b.ops.extend(made.ops[:-1])
            self.b.site = op.site
            last = made.ops[-1]
            more = tuple(self._bound(last.values[at]) for at in places)
            self.b.emit("yield", ((*last.values, *more), ), last.site)
            blocks.append(Block(made.args, self.b.close(outside)))
        self.bound.update(zip(carried, results))
        self.b.ops.append(Op(op.name, args, (*op.results, *results), tuple(blocks), op.attrs, op.site))

    # ---- bounds ----------------------------------------------------------------------------------------------------------------

    def _bound(self, value: Value) -> Value:
        """The bound of a value; 0 of one that is the same in both programs."""
        return self.bound[value] if value in self.apart else self.b.constant(0.0, like(value.type, FP32))

    def _rule(self, op: Op) -> None:
        """The bound of an op's result."""
        rule = RULES.get(op.name)
        if rule is not None:
            found = rule(self, op)
        elif op.row.elements_of and len(op.results) == 1:
            found = self._alike(op)
        else:
            self._refuse(op)
        self.bound[op.result] = found

    def _alike(self, op: Op) -> Value:
        """Of an op that moves elements: the bounds, moved likewise."""
        moved = {getattr(op, name) for name in op.row.elements_of}
        if any(value in self.apart and value not in moved for value in op.operands):
            self._refuse(op)
        args = tuple(self._bound(arg) if isinstance(arg, Value) and arg in moved else
                     like(arg, FP32) if isinstance(arg, Type) else arg for arg in op.args)
        return self.b.emit(op.name, args, **op.attrs)

    def _refuse(self, op: Op) -> None:
        raise NoBound(f"`{op.row.word or op.name}` takes what follows from the product, and has no bound of its roundings", op.site)

    def _single(self, *values: Value) -> None:
        for value in values:
            element = value.type.element if isinstance(value.type, Tensor) else value.type
            if element != FP32:
                raise NoBound(f"what follows from the product is computed in {element}, of which there is no bound",
                              self.b.site)

    def _size(self, value: Value) -> Value:
        return self.b.emit("fabs", (value, ))

    def _plus(self, one: Value, other: Value) -> Value:
        return self.b.emit("fadd", (one, other))

    def _product(self, one: Value, other: Value) -> Value:
        return self.b.emit("fmul", (one, other))

    def _times(self, value: Value, number: float) -> Value:
        return self._product(value, self.b.constant(number, value.type))

    def _rounded(self, bound: Value, value: Value) -> Value:
        """The bound behind a rounding of both values to fp32, of which one is `value`."""
        return self._plus(self._times(bound, MORE), self._times(self._size(value), 2.02 * 2.0**-24))

    def _sum(self, op: Op) -> Value:
        self._single(op.result)
        return self._rounded(self._plus(self._bound(op.lhs), self._bound(op.rhs)), op.result)

    def _times_each_other(self, op: Op) -> Value:
        self._single(op.result)
        one, other = ((each, self._bound(each)) for each in (op.lhs, op.rhs))
        mixed = self._plus(self._product(one[1], self._size(other[0])), self._product(other[1], self._size(one[0])))
        return self._rounded(self._plus(mixed, self._product(one[1], other[1])), op.result)

    def _divided(self, op: Op) -> Value:
        self._single(op.result)
        if op.rhs in self.apart:
            self._refuse(op)
        return self._rounded(self.b.emit("fdiv", (self._bound(op.lhs), self._size(op.rhs))), op.result)

    def _same(self, op: Op) -> Value:
        return self._bound(op.operands[0])

    def _larger(self, op: Op) -> Value:
        self._single(op.result)
        return self.b.emit("maximumf", (self._bound(op.lhs), self._bound(op.rhs)))

    def _cast(self, op: Op) -> Value:
        """Of a conversion: to fewer digits each value is rounded."""
        have, want = ((type_.element if isinstance(type_, Tensor) else type_).name for type_ in (op.value.type, op.result.type))
        if have not in DIGITS or want not in DIGITS or "fp64" in (have, want):
            self._refuse(op)
        bound = self._bound(op.value)
        if DIGITS[want] >= DIGITS[have]:
            return bound
        self._single(op.value)
        self.cast[op.result.type] = op
        relative, least = rounding(want)
        both = self._plus(self._times(self._size(op.value), 2.0), bound)
        rounded = self._plus(self._times(bound, MORE), self._times(both, relative * 1.01))
        return self._plus(rounded, self.b.constant(least, rounded.type)) if least else rounded

    def _stored(self, value: Value) -> Value:
        """The bound of a result as its array has it."""
        bound = self._bound(value)
        if bound.type == value.type:
            return bound
        like_it = next((op for type_, op in self.cast.items() if type_.element == value.type.element), None)
        if like_it is None:
            raise NoBound(f"a result is stored as {value.type.element}", self.b.site)
        return self.b.emit(like_it.name, like_it.with_operands(value=bound, type=value.type).args)


def _is_store(op: Op) -> bool:
    return op.row.stores or op.name == "descriptor_store"


RULES: dict[str, Callable[[_Writer, Op], Value]] = {
    "fadd": _Writer._sum, "fsub": _Writer._sum, "fmul": _Writer._times_each_other, "fdiv": _Writer._divided,
    "fneg": _Writer._same, "fabs": _Writer._same, "maximumf": _Writer._larger, "minimumf": _Writer._larger,
    "maxnumf": _Writer._larger, "minnumf": _Writer._larger, "fp_trunc": _Writer._cast, "fp_ext": _Writer._cast,
    "fp_to_fp": _Writer._cast,
}
