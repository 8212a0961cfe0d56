"""MLIR as plain data: ops with their operands, results, regions, and the text that the printer makes of each.

Input: a function of an author's, or a whole module of TTGIR. Output: the `Node` of the function, or of the module. An example:

    tree(source).regions[0].nodes[0]        Node("arith.addf", (1, 1), ((2, "tensor<128xf32>"), ), text="%0 = arith.addf %arg0, ..")
    module_tree(text, "tile.ttgir")         Node("builtin.module", .., regions=[Block(nodes=[Node("tt.func", ..)])])

Values are numbers. The attributes of an op have no reader in Triton's binding, so a reader of attributes parses the op's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .mlir_complaints import NOWHERE, MlirProblem, complaints, locations_of, ops_of
from .mlir_functions import MlirSource, body, new_context, positions
from .text import any_context, located, parsed_file, text_file

_OP = re.compile(r'(?:%[^=]*= )?"?((?:builtin\.)?module|[a-z]\w*\.[\w.]+)')
_BEHIND = re.compile(r"\}( \{[^{}]*\})$")
_HIDDEN = "ttg.warp_specialize.partitions"      # printed as a part of the op around it
_OWN = re.compile(r"\"([^\"]*)\":(\d+):(\d+)")

Value = tuple[int, str]


@dataclass
class Block:
    """A block: its arguments and its ops."""

    arguments: tuple[Value, ...] = ()
    nodes: list[Node] = field(default_factory=list)


@dataclass
class Node:
    """An op: `results` are values with their types, `operands` values; `line` and `column` are its place in the text that was
    parsed, where the text says no other one: that is the `location`, as MLIR writes it."""

    name: str
    operands: tuple[int, ...]
    results: tuple[Value, ...]
    regions: list[Block]
    line: int
    column: int
    text: str = ""
    location: str = ""


def tree(source: MlirSource) -> Node:
    """The function that is called, helpers inlined; the one block of its region has the parameters as arguments."""
    made = body(source, new_context())
    (function, ) = [node for node in _nodes((op, *place, "") for op, place in positions(source, made.module))
                    if node.name == "tt.func"]
    _give_texts(function, made.text)
    return function


def module_tree(text: str, file: str) -> Node:
    """The module that a text describes, of ops of any vendor. Locations in the text itself name `file`. `MlirProblem` with the line
    and the column of what MLIR cannot read."""
    with text_file(text, ".ttgir") as path, complaints():
        module = parsed_file(path, any_context())
    said = [said.replace(f'"{path}"', f'"{file}"') for said in locations_of(module)]
    *_, top = _nodes((op, *_own(one, file), one) for op, one in zip(ops_of(module), said, strict=True))
    _give_texts(top, module.str_nodebug())
    return top


def _own(location: str, file: str) -> tuple[int, int]:
    """Line and column of a location in the text itself; `NOWHERE` of any other."""
    found = _OWN.search(location)
    return (int(found[2]), int(found[3])) if found and found[1] == file else NOWHERE


def _nodes(ops: Iterable[tuple[Any, int, int, str]]) -> list[Node]:
    """A node for each op, in the order of a walk: parents behind what is inside."""
    inside: dict[int, Block] = {}
    nodes = []
    for op, line, column, location in ops:
        regions = []
        for index in range(op.get_num_regions()):
            region = op.get_region(index)
            if region.size() > 1:
                raise MlirProblem(f"{op.get_name()} has branches between blocks; only scf.if, scf.for and scf.while are read", line,
                                  column)
            regions.append(inside.pop(region.id(), Block()))
        node = Node(op.get_name(), tuple(op.get_operand(index).id() for index in range(op.get_num_operands())),
                    tuple(_value(op.get_result(index)) for index in range(op.get_num_results())), regions, line, column,
                    location=location)
        block = op.get_block()
        if block is not None:
            here = inside.setdefault(block.get_parent().id(), Block())
            here.arguments = tuple(_value(block.get_argument(index)) for index in range(block.get_num_arguments()))
            here.nodes.append(node)
        nodes.append(node)
    return nodes


def _value(value) -> Value:
    return value.id(), str(value.get_type())


def _lines(text: str) -> list[str]:
    """The line of each op, without its location."""
    lines: list[str] = []
    latest: dict[int, int] = {}         # the last line of each indentation
    for written in text.splitlines():
        line = located(written.strip())[0]
        depth = len(written) - len(written.lstrip())
        if _OP.match(line):
            latest[depth] = len(lines)
            lines.append(line)
        elif (found := _BEHIND.match(line)) and depth in latest:
            lines[latest[depth]] += found[1]
    return lines


def _give_texts(top: Node, text: str) -> None:
    """Note on each node its line of the text: the printer writes parents before their regions, and leaves empty yields out. What an
    op says behind its regions stands behind its line."""
    lines = _lines(text)
    if top.name != "builtin.module":
        lines.pop(0)

    def visit(node: Node, around: str = "") -> None:
        if node.name == "scf.yield" and not node.operands and around not in ("scf.while", "scf.execute_region"):
            return
        if node.name != _HIDDEN:
            node.text = lines.pop(0) if lines else ""
            found = _OP.match(node.text)
            if found is None or found[1] not in (node.name, node.name.removeprefix("builtin.")):
                raise MlirProblem(f"the text of {node.name} is not found", node.line, node.column)
        for block in node.regions:
            for inner in block.nodes:
                visit(inner, node.name)

    visit(top)
