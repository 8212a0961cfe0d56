"""A function in MLIR text as a block of our ops, which the simulator runs as it runs any other.

Input: a `raw_mlir` and the text that it calls. Output: a `Block` with the function's parameters as arguments, whose last op is a
`yield` of its results; or `Unreadable`, with the op that has no twin among ours. An example:

    %0 = arith.addf %arg0, %arg0 : tensor<128xf32>          fadd %x %x
    tt.return %0 : tensor<128xf32>                          yield (%0)

So loads, stores and accesses of buffers are checked, and told to the memory model, with the lines of the author's text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import MappingProxyType
from weakref import WeakKeyDictionary

from ...compiler.triton_port.mlir_complaints import MlirProblem
from ...compiler.triton_port.mlir_functions import Machine, MlirSource
from ...compiler.triton_port.mlir_tree import Block as Nodes
from ...compiler.triton_port.mlir_tree import Node, tree
from ...ir import OPS, Block, Op, Scalar, Site, Tensor, Type, Value
from ...ir.mlir_text import MlirText
from ...ir.mlir_types import buffer_alias, in_some_layout, type_of
from ...ir.raw_code import RawCode

# The op of ours that takes the same operands in the same order.
_TWINS = {
    "arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul", "arith.divf": "fdiv", "arith.remf": "frem",
    "arith.negf": "fneg", "arith.maximumf": "maximumf", "arith.minimumf": "minimumf", "arith.maxnumf": "maxnumf",
    "arith.minnumf": "minnumf", "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.divsi": "sdiv",
    "arith.divui": "udiv", "arith.remsi": "srem", "arith.remui": "urem", "arith.andi": "and", "arith.ori": "or",
    "arith.xori": "xor", "arith.shli": "shl", "arith.shrsi": "ashr", "arith.shrui": "lshr", "arith.maxsi": "maxsi",
    "arith.minsi": "minsi", "arith.maxui": "maxui", "arith.minui": "minui", "arith.select": "select",
    "math.exp": "exp", "math.exp2": "exp2", "math.log": "log", "math.log2": "log2", "math.sqrt": "sqrt", "math.rsqrt": "rsqrt",
    "math.sin": "sin", "math.cos": "cos", "math.erf": "erf", "math.absf": "fabs", "math.absi": "iabs", "math.ceil": "ceil",
    "math.floor": "floor", "math.fma": "fma", "tt.addptr": "addptr", "tt.precise_divf": "precise_divf",
    "tt.precise_sqrt": "precise_sqrt", "tt.mulhiui": "umulhi", "tt.unsplat": "unsplat", "tt.join": "join", "tt.split": "split",
    "scf.condition": None, "scf.yield": None,
}
# The op of ours that makes a value of the result's type.
_CASTS = {"arith.sitofp": "si_to_fp", "arith.uitofp": "ui_to_fp", "arith.fptosi": "fp_to_si", "arith.fptoui": "fp_to_ui",
          "arith.extf": "fp_ext", "arith.truncf": "fp_trunc", "arith.bitcast": "bitcast", "tt.bitcast": "bitcast",
          "tt.int_to_ptr": "int_to_ptr", "tt.ptr_to_int": "ptr_to_int"}
_INTEGERS = {"arith.extsi": True, "arith.extui": False, "arith.trunci": True}     # whether the number has a sign
_COMPARED = {"eq": "icmpEQ", "ne": "icmpNE", "slt": "icmpSLT", "sle": "icmpSLE", "sgt": "icmpSGT", "sge": "icmpSGE",
             "ult": "icmpULT", "ule": "icmpULE", "ugt": "icmpUGT", "uge": "icmpUGE"}
_CONSTANT = re.compile(r"= arith\.constant (?:\{.*?\} )?(?:dense<(.*?)>|(\S+))(?: : .*)?$")
_KINDS = {"EXCH": "XCHG"}
_ORDERS = {"relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE", "acq_rel": "ACQUIRE_RELEASE"}
_SCOPES = {"cta": "CTA", "gpu": "GPU", "sys": "SYSTEM"}
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_BITS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}
_READY: WeakKeyDictionary[Op, Block] = WeakKeyDictionary()


class Unreadable(Exception):
    """An op of the text that has no twin among ours: `node`, or nothing if the text is refused as a whole."""

    def __init__(self, what: str, line: int):
        self.what, self.line = what, line
        super().__init__(what)


def block_of(op: Op, code: RawCode, num_warps: int) -> Block:
    """The body of the function that a `raw_mlir` calls."""
    if op not in _READY:
        function = _tree(code, num_warps)
        _READY[op] = _Reader(code, op.site).block(function.regions[0])
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


class _Reader:
    """Makes ops of nodes. `values` has our value for each number."""

    def __init__(self, code: RawCode, call: Site):
        self.code, self.call = code, call
        self.values: dict[int, Value] = {}

    def block(self, nodes: Nodes) -> Block:
        args = tuple(self._new(number, text, nodes.nodes[0]) for number, text in nodes.arguments)
        return Block(args, tuple(op for node in nodes.nodes for op in self.ops(node)))

    def ops(self, node: Node) -> Iterator[Op]:
        """The ops of ours in the place of one; none for a layout."""
        if node.name == "ttg.convert_layout":
            self.values[node.results[0][0]] = self.values[node.operands[0]]
            return
        operands = [self.values[number] for number in node.operands]
        if node.name == "ttng.warp_group_dot":
            yield from self._product(node, operands)
            return
        blocks = tuple(map(self.block, node.regions))
        results = tuple(self._new(number, text, node) for number, text in node.results)
        name, args = self._twin(node, operands, [value.type for value in results])
        args += (None, ) * (len(OPS[name].operands) - len(args))
        if name == "if":
            blocks = tuple(block if block.ops else Block((), (Op("yield", ((), )), )) for block in blocks)
        yield Op(name, args, results, blocks, MappingProxyType({}), self._site(node))

    def _twin(self, node: Node, operands: list[Value], types: list[Type]) -> tuple[str, tuple]:
        name = node.name
        if _TWINS.get(name):
            return _TWINS[name], tuple(operands)
        if name in _CASTS:
            return _CASTS[name], (operands[0], types[0])
        if name in _INTEGERS:
            return "int_cast", (operands[0], types[0], _INTEGERS[name])
        if name in _SPECIAL:
            return _SPECIAL[name](self, node, operands, types)
        raise Unreadable(f"{name} has no meaning in the simulator", node.line)

    def _product(self, node: Node, operands: list[Value]) -> Iterator[Op]:
        """A product of the tensor cores and its wait: it reads buffers through the asynchronous proxy."""
        (result, ) = (self._new(number, text, node) for number, text in node.results)
        pending, site = Value(result.type, "mlir"), self._site(node)
        yield Op("async_dot", (*operands[:3], "tf32", 0), (pending, ), (), MappingProxyType({"type": result.type}), site)
        yield Op("async_dot_wait", (0, pending), (result, ), (), MappingProxyType({}), site)

    def _new(self, number: int, text: str, node: Node) -> Value:
        type_ = type_of(text)
        if type_ is None:
            raise Unreadable(f"the type {text} has no meaning in the simulator", node.line)
        value = self.values[number] = Value(type_, "mlir")
        return value

    def _site(self, node: Node) -> Site:
        return Site(self.code.file, self.code.line + node.line - 1, node.column - 1, self.code.name, self.call)

    # ---- ops whose operands or attributes need a look -----------------------------------------------------------------

    def constant(self, node, operands, types):
        found = _CONSTANT.search(node.text)
        text = (found[1] or found[2]) if found else ""
        element = types[0].element if isinstance(types[0], Tensor) else types[0]
        if text in ("true", "false"):
            return "constant", (-1 if text == "true" and element.bits > 1 else int(text == "true"), types[0])
        if text.startswith("0x") and isinstance(element, Scalar) and element.name in _BITS:
            bits = int(text, 16).to_bytes(element.bits // 8, "little")
            return "constant", (struct.unpack(_BITS[element.name], bits)[0], types[0])
        if not _NUMBER.fullmatch(text) or not isinstance(element, Scalar):
            raise Unreadable(f"the constant {text or node.text} has no meaning in the simulator", node.line)
        return "constant", (float(text) if element.is_float else int(text), types[0])

    def compared(self, node, operands, types):
        word = re.search(r"arith\.cmp[if] (\w+),", node.text)[1]
        name = _COMPARED[word] if node.name == "arith.cmpi" else f"fcmp{word.upper()}"
        if name not in OPS:
            raise Unreadable(f"the comparison {word} has no meaning in the simulator", node.line)
        return name, tuple(operands)

    def load(self, node, operands, types):
        if len(operands) == 1:
            return "load", (operands[0], None, False)
        return "masked_load", (operands[0], operands[1], operands[2] if len(operands) > 2 else None, None, False)

    def store(self, node, operands, types):
        return ("store", (*operands, None)) if len(operands) == 2 else ("masked_store", (*operands, None))

    def dot(self, node, operands, types):
        found = re.search(r"inputPrecision = (\w+)", node.text)
        return "dot", (*operands, found[1] if found else "ieee", 0)

    def reshaped(self, node, operands, types):
        if "allow_reorder" in node.text:
            raise Unreadable("the order of tt.reshape with allow_reorder is that of a layout", node.line)
        return "reshape", (operands[0], types[0].shape, False)

    def structure(self, node, operands, types):
        if node.name == "scf.if":
            return "if", (operands[0], tuple(types))
        return ("for", (*operands[:3], tuple(operands[3:]))) if node.name == "scf.for" else ("while", (tuple(operands), ))

    def handed(self, node, operands, types):
        return ("condition", (operands[0], tuple(operands[1:]))) if node.name == "scf.condition" else ("yield", (tuple(operands), ))


def _number(node: Node, name: str) -> int:
    return int(re.search(rf"\b{name} = (-?\d+)", node.text)[1])


def _order(node: Node) -> tuple[int, ...]:
    return tuple(map(int, re.search(r"order = array<i32: ([\d, ]+)>", node.text)[1].split(",")))


def _axis(node: Node) -> int:
    return "xyz".index(node.text.split(" : ")[0][-1])


def _backwards(node: Node) -> bool:
    return "reverse = true" in node.text


def _rounding(node: Node) -> str | None:
    found = re.search(r"rounding = (\w+)", node.text)
    return found[1].upper() if found else None


def _string(node: Node) -> str:
    """The first string of an op."""
    return re.search(r'"((?:[^"\\]|\\.)*)"', node.text)[1]


def _propagated(node: Node) -> str:
    return "ALL" if "propagateNan = all" in node.text else "NONE"


def _atomic(node: Node, operands: list[Value]) -> tuple:
    """`tt.atomic_rmw fadd, acq_rel, gpu, %p, %v, %m`: kind, pointer, value, mask, order, scope."""
    kind = re.search(r"tt\.atomic_rmw (\w+),", node.text)[1].upper()
    mask = operands[2] if len(operands) > 2 else None
    return (_KINDS.get(kind, kind), *operands[:2], mask, *_order_and_scope(node, 1))


def _order_and_scope(node: Node, before: int) -> tuple[str, str]:
    words = re.search(r"tt\.atomic_\w+ ((?:\w+, )+)", node.text)[1].split(", ")
    return _ORDERS[words[before]], _SCOPES[words[before + 1]]


_Special = Callable[[_Reader, Node, list[Value], list[Type]], tuple[str, tuple]]
_SPECIAL: dict[str, _Special] = {
    "arith.constant": _Reader.constant, "arith.cmpi": _Reader.compared, "arith.cmpf": _Reader.compared,
    "tt.load": _Reader.load, "tt.store": _Reader.store, "tt.dot": _Reader.dot,
    "scf.if": _Reader.structure, "scf.for": _Reader.structure, "scf.while": _Reader.structure,
    "scf.yield": _Reader.handed, "scf.condition": _Reader.handed, "tt.return": _Reader.handed, "tt.reduce.return": _Reader.handed,
    "tt.scan.return": _Reader.handed,
    "tt.splat": lambda reader, node, operands, types: ("splat", (types[0], operands[0])),
    "tt.broadcast": lambda reader, node, operands, types: ("broadcast", (operands[0], types[0])),
    "tt.expand_dims": lambda reader, node, operands, types: ("expand_dims", (operands[0], _number(node, "axis"))),
    "tt.reshape": _Reader.reshaped,
    "ub.poison": lambda reader, node, operands, types: ("poison", (types[0], )),
    "tt.trans": lambda reader, node, operands, types: ("trans", (operands[0], _order(node))),
    "tt.make_range": lambda reader, node, operands, types: ("make_range", (types[0], _number(node, "start"), _number(node, "end"))),
    "tt.reduce": lambda reader, node, operands, types: ("reduce", (tuple(operands), _number(node, "axis"))),
    "tt.scan": lambda reader, node, operands, types: ("scan", (tuple(operands), _number(node, "axis"), _backwards(node))),
    "tt.gather": lambda reader, node, operands, types: ("gather", (*operands, _number(node, "axis"))),
    "tt.get_program_id": lambda reader, node, operands, types: ("get_program_id", (_axis(node), )),
    "tt.get_num_programs": lambda reader, node, operands, types: ("get_num_programs", (_axis(node), )),
    "tt.fp_to_fp": lambda reader, node, operands, types: ("fp_to_fp", (operands[0], types[0], _rounding(node))),
    "ttg.local_load": lambda reader, node, operands, types: ("local_load", (operands[0], None, None)),
    "ttg.local_store": lambda reader, node, operands, types: ("local_store", (operands[1], operands[0], None)),
    "tt.histogram": lambda reader, node, operands, types: ("histogram", (operands[0], types[0].shape[0], *operands[1:])),
    "tt.atomic_rmw": lambda reader, node, operands, types: ("atomic_rmw", _atomic(node, operands)),
    "tt.atomic_cas": lambda reader, node, operands, types: ("atomic_cas", (*operands, *_order_and_scope(node, 0))),
    "tt.clampf": lambda reader, node, operands, types: ("clampf", (*operands, _propagated(node))),
    "tt.print": lambda reader, node, operands, types: ("print", (_string(node), "hex = true" in node.text, tuple(operands), None)),
    "tt.assert": lambda reader, node, operands, types: ("assert", (operands[0], _string(node))),
    "ttg.local_scatter": lambda reader, node, operands, types: ("local_scatter", (*operands, _number(node, "axis"))),
    "ttg.local_gather": lambda reader, node, operands, types: ("local_gather", (*operands, _number(node, "axis"), None, None)),
}
