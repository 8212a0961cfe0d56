"""A function in MLIR text as a block of our ops, which the simulator runs as it runs any other.

Input: a `raw_mlir` and the text that it calls. Output: a `Block` with the function's parameters as arguments, whose last op is a
`yield` of its results; or `Unreadable`, with the op that has no meaning among ours. An example:

    %0 = arith.addf %arg0, %arg0 : tensor<128xf32>          fadd %x %x
    tt.return %0 : tensor<128xf32>                          yield (%0)

So loads, stores and accesses of buffers are checked, and told to the memory model, with the lines of the author's text.
"""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from ...compiler.triton_port.mlir_complaints import MlirProblem
from ...compiler.triton_port.mlir_functions import Machine, MlirSource
from ...compiler.triton_port.mlir_tree import Node, tree
from ...compiler.ttgir.reading import Reader
from ...compiler.ttgir.reading import Unreadable as OpUnreadable
from ...ir import Block, Op, Site
from ...ir.mlir_text import MlirText
from ...ir.mlir_types import buffer_alias, in_some_layout
from ...ir.raw_code import RawCode

_READY: WeakKeyDictionary[Op, Block] = WeakKeyDictionary()


class Unreadable(Exception):
    """An op of the text that has no meaning among ours, by its line; or the first line, if the text is refused as a whole."""

    def __init__(self, what: str, line: int):
        self.what, self.line = what, line
        super().__init__(what)


def block_of(op: Op, code: RawCode, num_warps: int) -> Block:
    """The body of the function that a `raw_mlir` calls."""
    if op not in _READY:
        (region, ) = _tree(code, num_warps).regions
        try:
            _READY[op] = Reader(Site(code.file, code.line, 0, code.name, op.site)).block(region)
        except OpUnreadable as problem:
            raise Unreadable(problem.what, problem.node.line) from None
    return _READY[op]


@lru_cache(maxsize=128)
def _tree(code: RawCode, num_warps: int) -> Node:
    text = MlirText(code.text)
    types = tuple((buffer_alias(one), in_some_layout(one)) for one in text.buffers)
    source = MlirSource(text.aliases, text.bodies, text.called(code.symbol, code.name).name, types, Machine(num_warps))
    try:
        return tree(source)
    except MlirProblem as problem:
        raise Unreadable(problem.what, problem.line) from None
