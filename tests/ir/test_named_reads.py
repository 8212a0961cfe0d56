"""Readers of the IR take operands by name: `op.barrier`, never `op.args[0]`.

Each source is read by `ast`. An op's arguments are read by position where `.args` is indexed, sliced, counted or taken apart:
`op.args[2]`, `op.args[:3]`, `len(op.args) > 2`, `buffer, index = op.args`. Handing all of them on as they are is no such read.
"""

import ast
from pathlib import Path

import pytest

import mimw
from tests.every import every

SOURCE = Path(mimw.__file__).parent
FILES = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
# Files that read by position all the same.
ARGUED = {
    "ir/core.py": "reads by name are made of reads by position here",
    "compiler/frontend/drafts.py": "drafts are what ops are made of",
    "language/tle/pipe_reads.py": "works on drafts, until pipes are ops",
    "language/tle/pipe_window.py": "works on drafts, until pipes are ops",
}


def positional_reads(source: str) -> list[int]:
    """The lines in which a source reads arguments by position. The arguments of blocks are values of their own: `block.args`."""
    found = []
    for node in ast.walk(ast.parse(source)) if ".args" in source else ():
        read = None
        if isinstance(node, ast.Subscript):
            read = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
            read = node.args[0]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
            read = node.value
        if isinstance(read, ast.Attribute) and read.attr == "args" and not _is_of_a_block(read.value):
            found.append(node.lineno)
    return found


def _is_of_a_block(node: ast.AST) -> bool:
    """True of `block`, `inner.block`, `before` and `op.blocks[0]`."""
    name = getattr(node, "id", getattr(node, "attr", ""))
    if isinstance(node, ast.Subscript):
        return getattr(node.value, "attr", "") == "blocks"
    return name in ("block", "before", "after", "first", "body")


@every(file for file in FILES if file not in ARGUED)
def test_operands_are_read_by_name(file):
    assert not positional_reads((SOURCE / file).read_text()), f"{file}: read operands by the names in their rows"


@pytest.mark.parametrize("source", ["x = op.args[2]", "x = use.op.args[:3]", "y = len(op.args) > 2", "a, b = op.args",
                                    "a, *rest = op.args"])
def test_what_counts(source):
    assert positional_reads(source)


@pytest.mark.parametrize("source", ["x = op.blocks[0].args[0]", "x = block.args[1:]", "x = f(*op.args)", "args = op.args",
                                    "induction, *carried = block.args"])
def test_what_does_not(source):
    assert not positional_reads(source)
