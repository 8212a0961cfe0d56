"""A function in MLIR as plain data: its ops with their operands, results, regions, and the text that the printer makes of each.

Input: an `MlirSource`. Output: the `Node` of the function that is called. An example:

    tree(source).regions[0].nodes[0]        Node("arith.addf", (1, 1), ((2, "tensor<128xf32>"), ), text="%0 = arith.addf %arg0, ..")

Values are numbers. The attributes of an op have no reader in Triton's binding, so a reader of attributes parses the op's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .mlir_complaints import MlirProblem
from .mlir_functions import Body, MlirSource, body, new_context, positions
from .text import located

_OP = re.compile(r'(?:%[^=]*= )?"?((?:builtin\.)?module|[a-z]\w*\.[\w.]+)')

Value = tuple[int, str]


@dataclass
class Block:
    """A block: its arguments and its ops."""

    arguments: tuple[Value, ...] = ()
    nodes: list[Node] = field(default_factory=list)


@dataclass
class Node:
    """An op: `results` are values with their types, `line` and `column` where it stands in the bodies of its source."""

    name: str
    operands: tuple[int, ...]
    results: tuple[Value, ...]
    regions: list[Block]
    line: int
    column: int
    text: str = ""


def tree(source: MlirSource) -> Node:
    """The function that is called, helpers inlined; the one block of its region has the parameters as arguments."""
    made = body(source, new_context())
    inside: dict[int, Block] = {}
    function = None
    for op, (line, column) in positions(source, made.module):
        regions = [inside.pop(op.get_region(index).id(), Block()) for index in range(op.get_num_regions())]
        node = Node(op.get_name(), tuple(op.get_operand(index).id() for index in range(op.get_num_operands())),
                    tuple(_value(op.get_result(index)) for index in range(op.get_num_results())), regions, line, column)
        block = op.get_block()
        if block is not None:
            here = inside.setdefault(block.get_parent().id(), Block())
            here.arguments = tuple(_value(block.get_argument(index)) for index in range(block.get_num_arguments()))
            here.nodes.append(node)
        function = node if node.name == "tt.func" else function
    _give_texts(function, made)
    return function


def _value(value) -> Value:
    return value.id(), str(value.get_type())


def _give_texts(function: Node, made: Body) -> None:
    """Note on each node its line of the text: the printer writes parents before their regions, and leaves empty yields out."""
    lines = (line.strip() for line in made.text.splitlines())
    lines = [located(line)[0] for line in lines if _OP.match(line)][1:]

    def visit(node: Node) -> None:
        if node.name == "scf.yield" and not node.operands:
            return
        node.text = lines.pop(0) if lines else ""
        if _OP.match(node.text or "?") is None or _OP.match(node.text)[1] != node.name:
            raise MlirProblem(f"the text of {node.name} is not found", node.line, node.column)
        for block in node.regions:
            for inner in block.nodes:
                visit(inner)

    visit(function)
