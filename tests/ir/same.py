"""Whether two programs are equal: the same ops on corresponding values, with the same names, numbers, types and sites; and whether
a program is equal to the one that is read from its text.

    differences(program, other)         ["add at k.py:7: sites ..."], or nothing
    same_text(launch)                   the launch's program, read back; AssertionError where anything differs
"""

from __future__ import annotations

from collections.abc import Iterator

from mimw.compiler.passes import run_passes
from mimw.compiler.triton_port.enumerations import enumeration_member
from mimw.ir import Op, Program, Value, parse_program, print_program, verify
from mimw.target import target


def differences(one: Program, other: Program, numbers: bool = True) -> list[str]:
    """What differs, in a few words each; with `numbers`, the numbers of values count, which a pass leaves as they were.
    An operand that was left out at the end of the arguments is one that is None."""
    return list(_Comparison(numbers).programs(one, other))


class _Comparison:

    def __init__(self, numbers: bool):
        self.numbers, self.partner = numbers, {}

    def programs(self, one: Program, other: Program) -> Iterator[str]:
        for field in ("name", "num_warps", "site", "uses_words", "launch_facts"):
            if getattr(one, field) != getattr(other, field):
                yield f"{field}: {getattr(one, field)} and {getattr(other, field)}"
        yield from self.defined([param.value for param in one.params], [param.value for param in other.params], "parameters")
        for left, right in zip(one.params, other.params):
            if (left.name, left.path, left.attrs) != (right.name, right.path, right.attrs):
                yield f"{left} and {right}"
        yield from self.ops(one.body.ops, other.body.ops)

    def ops(self, one: tuple[Op, ...], other: tuple[Op, ...]) -> Iterator[str]:
        if [op.name for op in one] != [op.name for op in other]:
            yield f"{[op.name for op in one]} and {[op.name for op in other]}"
            return
        for left, right in zip(one, other):
            yield from self.op(left, right)

    def op(self, one: Op, other: Op) -> Iterator[str]:
        here = f"{one.name} at {one.site}"
        ours, theirs = ((*op.args, *(None, ) * (len(op.row.operands) - len(op.args))) for op in (one, other))
        if self.mapped(ours) != theirs or not _same_kind(ours, theirs):
            yield f"{here}: arguments {ours} and {theirs}"
        given, read = ({key: value for key, value in op.attrs.items() if value is not None} for op in (one, other))
        if given != read:
            yield f"{here}: attributes {given} and {read}"
        if one.site != other.site:
            yield f"{here}: sites {one.site!r} and {other.site!r}"
        yield from self.defined(one.results, other.results, here)
        if len(one.blocks) != len(other.blocks):
            yield f"{here}: {len(one.blocks)} and {len(other.blocks)} regions"
        for left, right in zip(one.blocks, other.blocks):
            yield from self.defined(left.args, right.args, here)
            yield from self.ops(left.ops, right.ops)

    def defined(self, one, other, here: str) -> Iterator[str]:
        if len(one) != len(other):
            yield f"{here}: {len(one)} and {len(other)} values"
        for left, right in zip(one, other):
            self.partner[left] = right
            fields = ("type", "name", "number") if self.numbers else ("type", "name")
            for field in fields:
                if getattr(left, field) != getattr(right, field):
                    yield f"{here}: {field} {getattr(left, field)} and {getattr(right, field)}"

    def mapped(self, arg):
        if isinstance(arg, tuple):
            return tuple(map(self.mapped, arg))
        return self.partner.get(arg) if isinstance(arg, Value) else arg


def _same_kind(one, other) -> bool:
    """1, 1.0 and True are equal in Python, and three constants here."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same_kind, one, other))
    return type(one) is type(other)


def read_back(program: Program, forms: tuple[bool, ...] = (False, True)) -> Program:
    """The program as its text has it, after all comparisons of the two; in both forms of the text, without sites and with them."""
    for sites in forms:
        text = print_program(program, sites)
        again = parse_program(text, "k.ir", enumeration_member)
        verify(again)
        assert print_program(again, sites) == text
    return again


def same_text(launch) -> Program:
    """The recorded program and the one that runs are read back equal; gives the latter. The text without sites differs in nothing
    but them, so one of the two is read in both forms."""
    again, recorded = read_back(launch.program), read_back(launch.recorded, forms=(True, ))
    found = [*differences(launch.recorded, recorded), *differences(launch.program, again, numbers=False)]
    assert not found, "read back with other " + "\n".join(found[:3])
    passed = run_passes(recorded, target(launch.specialisation.target), remark=lambda one: None)
    assert print_program(passed) == print_program(launch.program)       # passes see no difference either
    return again
