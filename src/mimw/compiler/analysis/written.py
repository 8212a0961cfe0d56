"""The arguments that a kernel writes: torch has to know that of an operator, a check what a result is.

Input: a program. Output: the names of the parameters through which it writes global memory, or None if it writes through an
address that comes from elsewhere; and of those that hold nothing before the launch, the ops that store to them:

    written(program_of_double)      {"y"}, of `tl.store(y + at, 2 * tl.load(x + at))`
    results(program_of_double)      {"y": [the store]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import Descriptor, Op, Pointer, Program, Value
from ...ir.types import element_of
from .flows import Flows

# An attribute of a parameter whose array holds addresses: what they lead to, called "*" and the parameter's name, is apart from
# what other parameters' addresses lead to, and from all arguments. Whoever launches the kernel promises it (`tools.orchestrate`).
APART = "mimw.apart"


def written(program: Program) -> set[str] | None:
    """The names of the parameters that are pointers or descriptors and may be written; None if that cannot be said."""
    found: set[str] = set()
    for op in program.walk():
        for address in accessed(op, "write"):
            names = parameters_behind(program, address)
            if names is None:
                return None
            found |= names
    return found


def results(program: Program) -> dict[str, list[Op]]:
    """By the parameter: the ops that store to it, of parameters that the kernel only stores to. What it also reads, or changes by
    atomics and reductions, holds something before the launch."""
    stores: dict[str, list[Op]] = {}
    others: set[str] = set()
    for op in program.walk():
        atomic = "atomic" in op.row.traits or "assembly" in op.row.traits
        for address in accessed(op, "write"):
            for name in parameters_behind(program, address) or ():
                stores.setdefault(name, []).append(op)
                if atomic or "reduces" in op.row.traits and ("reduce" not in op.row.places or bool(op.reduce)):
                    others.add(name)
        for address in accessed(op, "read"):
            others |= parameters_behind(program, address) or set()
    return {name: ops for name, ops in stores.items() if name not in others}


def parameters_behind(program: Program, address: Value, loaded: bool = True) -> set[str] | None:
    """The names of the parameters that an address may come from; None if it may come from elsewhere. An address that is loaded
    comes from where it lies, or, without `loaded`, from elsewhere."""
    flows: Flows = program.kept(Flows)
    params = {param.value: param.name for param in program.params}
    found, seen, todo = set(), set(), [address]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in params:
            found.add(params[value])
            continue
        behind = flows.sources.get(value)
        if behind is None:
            maker = flows.maker.get(value)
            if maker is not None and maker.name == "int_to_ptr" and (led := _led_to(program, maker.value)):
                found |= led
                continue
            follows = maker is not None and (loaded or not maker.row.loads)
            behind = [one for one in maker.operands if _addresses(one)] if follows else []
        if not behind:
            return None
        todo += behind
    return found


def _led_to(program: Program, number: Value) -> set[str]:
    """The arrays to which a loaded number leads as an address, if all parameters out of whose arrays it may come hold addresses of
    arrays of their own (`APART`); nothing if that cannot be said. Bits of it may be cut off, as those that do not count."""
    maker = program.kept(Flows).maker.get(number)
    if maker is not None and maker.name == "and":
        return _led_to(program, maker.lhs)
    if maker is not None and maker.name == "ptr_to_int":
        return {name for name in parameters_behind(program, maker.value) or () if name.startswith("*")}
    held = {param.name for param in program.params if (APART, True) in param.attrs}
    if maker is None or not maker.row.loads or "pointer" not in maker.row.places:
        return set()
    names = parameters_behind(program, maker.pointer)
    return {f"*{name}" for name in names} if names is not None and names <= held else set()


def accessed(op: Op, how: str) -> Iterator[Value]:
    """The addresses through which an op reads or writes, by `how`. What the author's own assembly does with an address only the
    author knows."""
    if "assembly" in op.row.traits:
        yield from filter(_addresses, op.operands)
    for name, access in op.row.touches:
        value = getattr(op, name)
        if access.endswith(how) and isinstance(value, Value) and _addresses(value):
            yield value


def _addresses(value: Value) -> bool:
    return isinstance(element_of(value.type), (Pointer, Descriptor))
