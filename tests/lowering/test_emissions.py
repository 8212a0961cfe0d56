"""Every op has an emission on every chip, and no emission and no layout rule counts operands."""

import ast
from pathlib import Path

import pytest

import mimw.compiler.lowering  # noqa: F401
from mimw.compiler.lowering.emitter import EMISSIONS
from mimw.ir import OPS
from mimw.target import TARGETS

PACKAGE = Path(__file__).parents[2] / "src" / "mimw"
# Before lowering passes have replaced them; what the reader of TTGIR makes is not compiled at all.
GONE = {"local_ptr", "remote_ptr", "distributed_barrier", "alias_overlap",
        *(name for name, row in OPS.items() if row.traits & {"pipe", "dsa", "ttgir"})}
REPLAYED = ("words/tiles.py", )  # hands all arguments of Triton's own ops on to its builder


@pytest.mark.parametrize("assembly", sorted({target.assembly for target in TARGETS.values() if target.binary}))
def test_every_op_has_an_emission(assembly):
    without = {name for name in OPS if (name, assembly) not in EMISSIONS and (name, "") not in EMISSIONS}
    assert without - GONE == set()


def test_every_emission_is_of_an_op_and_a_chip():
    assert {name for name, _ in EMISSIONS} <= set(OPS)
    assert {assembly for _, assembly in EMISSIONS} - {""} == {target.assembly for target in TARGETS.values() if target.binary}


@pytest.mark.parametrize("room", ["lowering", "constraints"])
def test_operands_are_read_by_name(room):
    """`op.args` and `emitter.operands(op)` are never indexed or unpacked: another operand in a row breaks no reader."""
    found = [f"{path.relative_to(PACKAGE)}:{node.lineno}" for path in sorted((PACKAGE / room).rglob("*.py"))
             if not path.as_posix().endswith(REPLAYED) for node in ast.walk(ast.parse(path.read_text())) if by_position(node)]
    assert found == []


def by_position(node) -> bool:
    if isinstance(node, ast.Subscript):
        return operands(node.value) and isinstance(node.slice, (ast.Constant, ast.Slice))
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        unpacked = [node.value] if not isinstance(node.value, ast.Tuple) else node.value.elts
        return any(operands(value) for value in unpacked)
    return False


def operands(node) -> bool:
    text = ast.unparse(node)
    return text in ("op.args", "cut.args", "emitter.operands(op)", "op.operands")


@pytest.mark.parametrize("code, positional", [
    ("a, b = op.args", True), ("table, (a, b) = op.attrs['table'], op.args", True), ("x = op.args[1]", True),
    ("a, *b = emitter.operands(op)", True), ("a = op.buffer", False), ("args = op.args", False),
    ("a = op.operands[carry.index]", False)])
def test_what_counts_as_reading_by_position(code, positional):
    assert any(by_position(node) for node in ast.walk(ast.parse(code))) is positional
