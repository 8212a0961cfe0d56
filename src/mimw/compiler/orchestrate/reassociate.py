"""The scales of a product, multiplied with each other first: plain program to plain program, and not to the last bit.

Input: a plain program whose author allows that. Output: `Reassociated`: the program, a `Join` for each product whose scales were
joined, and remarks. For example, of scales of rows and one scale that all columns share:

    acc += tl.dot(x, y) * sa[:, None] * sb[None, :]     becomes     acc += tl.dot(x, y) * (sa[:, None] * sb[None, :])

which is one multiply-add an element, where a multiplication and a multiply-add were. That pays if the scales together vary along
fewer axes than the tile has, and are then computed small (`scales.py`). Both forms round each element as often as it has scales,
from the same exact product: `rounding_bounds.py` has what follows for results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Builder, Op, Program, Scalar, Tensor, Value
from ..analysis.remarks import Remark
from ..analysis.spreads import spread
from ..analysis.uses import Uses, uses_of
from .one_address import one_address
from .rounding_bounds import Bounds, Join, NoBound, bounds_of


@dataclass(frozen=True)
class Reassociated:
    """`program` is the one that it was made of if there are no `joins`; `bounds` say by how much its results may differ from it."""

    program: Program
    joins: tuple[Join, ...] = ()
    bounds: Bounds | None = None
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class _Chain:
    """Multiplications of a product by scales, one after the other; `last` is the last one, and `scales` in their order."""

    product: Value
    scales: tuple[Value, ...]
    ops: tuple[Op, ...]

    @property
    def last(self) -> Op:
        return self.ops[-1]


def reassociated(program: Program) -> Reassociated:
    """The program with scales joined wherever that leaves fewer multiplications and the results have a bound."""
    return program.kept(_reassociated)


def _reassociated(program: Program) -> Reassociated:
    found, remarks = {}, []
    for chain in _chains(program):
        groups = _groups(program, chain)
        if len(groups) < len(chain.scales):
            found[chain.last] = chain, groups
        else:
            shape = " x ".join(map(str, chain.last.result.type.shape))
            remarks.append(Remark(f"the scales of a product are not joined: together they are a whole tile of {shape}, so as many "
                                  "multiplications would be left", chain.last.site))
    if not found:
        nothing = Remark("no product is multiplied by several scales: there is nothing to reassociate", program.site)
        return Reassociated(program, remarks=tuple(remarks) or (nothing, ))
    b, joins = Builder(program.site), []
    dropped = {op for chain, _ in found.values() for op in chain.ops[:-1]}

    def change(op: Op) -> None:
        if op in found:
            joins.append(_joined(b, *found[op]))

    made = replace(program, body=b.anew(program.body, {*found, *dropped}, change))
    try:
        bounds = bounds_of(made, joins)
    except NoBound as error:
        return Reassociated(program, remarks=(*remarks, Remark(f"scales are not joined: {error}", error.site)))
    remarks += [Remark(f"{len(chain.scales)} scales are multiplied with each other before the product is multiplied by them, as "
                       "`reassociate` allows: not the plain kernel's bits", chain.last.site) for chain, _ in found.values()]
    return Reassociated(made, tuple(joins), bounds, tuple(remarks))


def _joined(b: Builder, chain: _Chain, groups: list[list[Value]]) -> Join:
    """The product times each group of its scales."""
    site, value = chain.last.site, chain.product
    for at, scales in enumerate(groups):
        scale, *others = scales
        for other in others:
            scale = b.emit("fmul", (scale, other), site)
        is_last = at == len(groups) - 1
        value = b.emit("fmul", (value, scale), site, results=chain.last.results if is_last else None)
    return Join(chain.last.result, len(chain.scales), site)


# ---- which products --------------------------------------------------------------------------------------------------------


def _chains(program: Program) -> list[_Chain]:
    """The longest chains of fp32 multiplications of a product, in one block each."""
    uses = uses_of(program)
    found = [chain for op in program.named("fmul") if (chain := _chain(uses, op)) is not None and len(chain.scales) > 1]
    inner = {op for chain in found for op in chain.ops[:-1]}
    return [chain for chain in found if chain.last not in inner]


def _chain(uses: Uses, op: Op) -> _Chain | None:
    if not isinstance(op.result.type, Tensor) or op.result.type.element != Scalar("fp32"):
        return None
    for value, scale in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if _is_product(uses, value):
            return _Chain(value, (scale, ), (op, ))
        before = uses.definition.get(value)
        if before is None or before.name != "fmul" or len(uses.of(value)) != 1 or uses.place[before] != uses.place[op]:
            continue
        if (chain := _chain(uses, before)) is not None:
            return _Chain(chain.product, (*chain.scales, scale), (*chain.ops, op))
    return None


def _is_product(uses: Uses, value: Value) -> bool:
    """True of what a tensor core gives, also as another type."""
    op = uses.definition.get(value)
    while op is not None and op.row.cost == "convert":
        op = uses.definition.get(op.value)
    return op is not None and "dot" in op.row.traits


def _groups(program: Program, chain: _Chain) -> list[list[Value]]:
    """The scales, together where they vary along fewer axes than the tile has."""
    shape = chain.last.result.type.shape
    whole = frozenset(axis for axis, extent in enumerate(shape) if extent > 1)
    groups: list[tuple[frozenset[int], list[Value]]] = []
    for scale in chain.scales:
        varies = _varies(program, scale)
        for at, (along, scales) in enumerate(groups):
            if along | varies < whole:
                groups[at] = along | varies, [*scales, scale]
                break
        else:
            groups.append((varies, [scale]))
    return [scales for _, scales in groups]


def _varies(program: Program, scale: Value) -> frozenset[int]:
    """The axes along which a scale varies: none if all its elements are loaded from one address."""
    uses = uses_of(program)
    one = spread(uses, scale)
    load = uses.definition.get(one.core)
    if load is not None and isinstance(one.core.type, Tensor) and one_address(program, load, True) is not None:
        return frozenset()
    return one.varies
