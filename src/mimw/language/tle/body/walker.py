"""Walks a raw body: a Python function that is read, never run, and whose dialect calls are recorded for all threads at once.

Input: the function, the values of its parameters, the threads. Output: ops in the recorder, and what the function returns. For example:

    def add(x, y, output):
        i = arith.index_cast(ir.IndexType.get(), nvvm.read_ptx_sreg_tid_x())       %lane = make_range; int_cast
        v = arith.addf(tensor.extract(x, [i]), tensor.extract(y, [i]))              local_ptr, load, .., fadd
        tensor.insert(v, output, [i])                                              local_ptr, store

Ops carry the line in the body, and that of the call in the kernel. Names that a body may use: its own, those of the function's closure and
module, the dialects, `ir`, and a few of Python's. What Python knows by itself (lists, numbers, `range`) is worked out while walking.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math as host_math
import operator
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Any

from ....errors import MimwError, UnknownSymbolError
from . import arith, branches, debug, hardware, ir, loops, memory, vectors, whiles  # noqa: F401
from .dialect import DIALECTS, Op
from .loops import For
from .regions import Block, Blocks, InsertionPoint, Structured
from .branches import If
from .threads import Threads
from .types import Type, is_float
from .values import Memory, Number, Vector

_PYTHON = {name: getattr(builtins, name) for name in ("range", "len", "int", "float", "bool", "list", "tuple", "min", "max", "abs", "zip",
                                                      "enumerate", "reversed", "sum", "True", "False", "None") if hasattr(builtins, name)}
_DIALECTS = {**DIALECTS, "ir": ir.MODULE}
_BINARY = {ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
           ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv), ast.Mod: ("rem", operator.mod),
           ast.BitAnd: ("and", operator.and_), ast.BitOr: ("or", operator.or_), ast.BitXor: ("xor", operator.xor),
           ast.LShift: ("shl", operator.lshift), ast.RShift: ("shr", operator.rshift), ast.Pow: ("pow", operator.pow)}
_OF_INTEGERS = {"add": "addi", "sub": "subi", "mul": "muli", "div": "divsi", "floordiv": "floordivsi", "rem": "remsi", "and": "andi",
                "or": "ori", "xor": "xori", "shl": "shli", "shr": "shrsi"}
_OF_FLOATS = {"add": "addf", "sub": "subf", "mul": "mulf", "div": "divf", "rem": "remf"}
_RELATIONS = {ast.Lt: ("lt", operator.lt), ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge),
              ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne)}


@lru_cache(maxsize=512)
def _parsed(function: FunctionType) -> tuple[ast.FunctionDef, int, int]:
    """The function's tree, the line of the file before its first one, and by how much it is indented."""
    lines, start = inspect.getsourcelines(function)
    text = "".join(lines)
    tree = ast.parse(dedent(text)).body[0]
    return tree, start - 1, len(lines[0]) - len(lines[0].lstrip())


class Walker:
    """Walks one body. Ops reach the threads, and what belongs to the whole body, through it."""

    def __init__(self, function: FunctionType, threads: Threads, allocate: Callable, widest: str = "block", depth: int = 0):
        self.function, self.threads, self._allocate, self.widest, self._depth = function, threads, allocate, widest, depth
        self._base = len(threads.regions)
        self.tree, self.line, self.column = _parsed(function)
        self.names: dict[str, Any] = {}
        closure = zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()))
        self.outer = {**function.__globals__, **dict(closure)}
        self.opened: list[list[Structured]] = []
        self.widened: dict[int, tuple] = {}     # what a loop was found to carry as tiles, by its statements
        self.returned: Any = None
        self.ended = False

    # ---- what ops ask -------------------------------------------------------------------------------------------------

    def fail(self, message: str, mend: str = "", kind=None):
        """Refuse the body at the line that is being walked."""
        self.threads.fail(message, mend, *([kind] if kind else []))

    def open(self, op: Structured) -> Structured:
        """Note an op with regions, whose regions must be there where the block around it ends."""
        self.opened[-1].append(op)
        return op

    def known(self, value: Any) -> int | None:
        """The number of a constant of the body, or None."""
        return value if isinstance(value, int) else getattr(value, "known", None)

    def writes(self, memory: Memory, what: str) -> None:
        """An element of `memory` is written."""
        if memory.read_only:
            self.fail(f"{what} writes to {memory.name}, which is an Input", f"annotate it as InOut[..] if {what} is meant to")
        memory.written = True

    def settle(self) -> None:
        """Behind what writes global memory: where a thread of the launch does the work of several, who reads what a thread has written
        may be another thread of the launch."""
        if self.threads.width != self.threads.physical:
            self.threads.semantic.debug_barrier()

    def allocate(self, type_, by_thread: bool) -> Memory:
        """Memory for the body's own use."""
        return self._allocate(type_, by_thread)

    def until_steady(self, statements: list[ast.stmt], lanes: tuple, record: Callable[[tuple], tuple | None]) -> None:
        """Record a loop, again and again until no more of what it carries has to be a tile."""
        known = self.widened.get(id(statements))
        lanes = tuple(a or b for a, b in zip(lanes, known)) if known else lanes
        kept = dict(self.names)
        while (more := record(lanes)) is not None:
            lanes = self.widened[id(statements)] = more
            self.names = dict(kept)

    # ---- statements ---------------------------------------------------------------------------------------------------

    def walk(self, arguments: dict[str, Any]) -> Any:
        """Record the body for these values of its parameters: what it returns."""
        builder = self.threads.builder
        saved = builder.enter_function(self.function.__name__)
        try:
            self.names = dict(arguments)
            self.block(self.tree.body)
        finally:
            builder.leave_function(saved)
        return self.returned

    def block(self, statements: list[ast.stmt]) -> None:
        """Walk the statements of one block."""
        self.opened.append([])
        self._statements(statements)
        for op in self.opened.pop():
            op.finish()

    def _statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._at(statement)
            if self.threads.regions[-1].yielded is not None or self.ended:
                self.fail("nothing may stand behind the end of a region")
            visit = getattr(self, f"_{type(statement).__name__}", None)
            if visit is None:
                self.fail(f"raw bodies have no {type(statement).__name__.lower()} statement",
                          "they have assignments, calls, `for` over scf.for_, `with` over scf.if_ and scf.while_, and return")
            visit(statement)

    def _at(self, node: ast.AST) -> None:
        builder = self.threads.builder
        builder.set_loc(self.function.__code__.co_filename, self.line + node.lineno, self.column + node.col_offset + 1)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.fail("only names are assigned in raw bodies; memref.store writes an element")
        self.bind(node.target, self._binary(node.op, self._name(node.target), self.value(node.value)))

    def _Return(self, node: ast.Return) -> None:
        if len(self.threads.regions) > self._base:
            self.fail("a raw body returns at its end, outside of all regions")
        self.returned, self.ended = None if node.value is None else self.value(node.value), True

    def _If(self, node: ast.If) -> None:
        """A condition that is known while walking takes one side."""
        test = self.value(node.test)
        if isinstance(test, (Number, Vector)):
            self.fail("Python's `if` cannot ask for a value of the body", "write `with scf.if_(condition):`")
        self._statements(node.body if test else node.orelse)

    def _For(self, node: ast.For) -> None:
        over = self.value(node.iter)
        self._at(node)
        if isinstance(over, For):
            over.run(over.body, node.body, lambda values: self._bind_loop(node.target, values))
            self._bind_results(node.target, over)
        elif isinstance(over, (range, list, tuple, zip, enumerate)) or hasattr(over, "__next__"):
            for item in over:
                self.bind(node.target, item)
                self._statements(node.body)
        else:
            self.fail(f"raw bodies do not iterate over {over!r}", "write `for i in scf.for_(start, stop, step):`")

    def _bind_loop(self, target: ast.expr, values: tuple) -> None:
        """Names of a loop as MLIR's bindings give them: the counter; the carried value, or a tuple of several; the results."""
        counter, carried = values[0], values[1:]
        if not isinstance(target, ast.Tuple):
            if carried:
                self.fail("this scf.for_ carries values", "write `for i, carried, results in scf.for_(..):`")
            self.bind(target, counter)
            return
        if not carried or len(target.elts) not in (2, 3):
            self.fail(f"this scf.for_ carries {len(carried)} values and gives {len(target.elts)} names",
                      "write `for i in ..` without carried values, `for i, carried, results in ..` with them")
        self.bind(target.elts[0], counter)
        self.bind(target.elts[1], carried[0] if len(carried) == 1 else carried)

    def _bind_results(self, target: ast.expr, loop: For) -> None:
        if isinstance(target, ast.Tuple):
            self.bind(target.elts[-1], loop.results[0] if len(loop.results) == 1 else loop.results)

    def _With(self, node: ast.With) -> None:
        if len(node.items) != 1:
            self.fail("a `with` of a raw body opens one region")
        (item, ) = node.items
        opened, names = self.value(item.context_expr), item.optional_vars
        self._at(node)
        if isinstance(opened, InsertionPoint):
            opened = opened.block
        if isinstance(opened, Blocks):
            opened = opened[0]
        if isinstance(opened, If):
            if names is not None:
                self.bind(names, opened)
            opened, names = opened.then_block, None
        if not isinstance(opened, Block):
            self.fail(f"`with` of a raw body opens a region of an op, not {opened!r}",
                      "with scf.if_(..):, with ir.InsertionPoint(op.then_block):, with loop.before as (i, ):")

        def assign(values: tuple) -> None:
            if names is not None:
                self.bind(names, values[0] if isinstance(names, ast.Name) and len(values) == 1 else values)
        opened.owner.run(opened, node.body, assign)

    def bind(self, target: ast.expr, value: Any) -> None:
        """Assign to a name, or to a tuple of names."""
        if isinstance(target, ast.Name):
            if isinstance(value, Number) and not value.handle.name:
                value.handle.name = target.id
            self.names[target.id] = value
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            values = list(value) if isinstance(value, (tuple, list)) else None
            if values is None or len(values) != len(target.elts):
                self.fail(f"{len(target.elts)} names for {'one value' if values is None else f'{len(values)} values'}")
            for one, item in zip(target.elts, values):
                self.bind(one, item)
            return
        self.fail("only names are assigned in raw bodies; memref.store writes an element")

    # ---- expressions --------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for."""
        visit = getattr(self, f"_{type(node).__name__.lower()}", None)
        if visit is None:
            self._at(node)
            self.fail(f"raw bodies have no {type(node).__name__} expressions")
        return visit(node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.names:
            return self.names[name]
        if name in self.outer:
            return _stand_in(name, self.outer[name])
        if name in _DIALECTS:
            return _DIALECTS[name]
        if name in _PYTHON:
            return _PYTHON[name]
        self._at(node)
        close = get_close_matches(name, [*self.names, *self.outer, *_DIALECTS], n=2, cutoff=0.7)
        hint = f". Did you mean {' or '.join(close)}?" if close else ""
        self.fail(f"{name!r} is not known in the raw body {self.function.__name__}{hint}",
                  f"a body may use its parameters, names of its module, and the dialects {', '.join(sorted(_DIALECTS))}",
                  UnknownSymbolError)

    def _attribute(self, node: ast.Attribute) -> Any:
        of = self.value(node.value)
        self._at(node)
        try:
            return getattr(of, node.attr)
        except AttributeError as error:
            text = str(error) if isinstance(of, ModuleType) else f"{type(of).__name__} has no {node.attr!r}"
            self.fail(text, kind=UnknownSymbolError)

    def _call(self, node: ast.Call) -> Any:
        called = self.value(node.func)
        args = [item for argument in node.args for item in (self.value(argument.value) if isinstance(argument, ast.Starred)
                                                           else [self.value(argument)])]
        kwargs = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        self._at(node)
        if isinstance(called, Op):
            return called.record(self, args, kwargs)
        if called in _PYTHON.values() or inspect.ismethod(called) or isinstance(called, type) and issubclass(called, _PLAIN):
            try:
                return called(*args, **kwargs)
            except MimwError:
                raise
            except (TypeError, ValueError) as error:
                self.fail(f"{ast.unparse(node.func)}: {error}")
        if isinstance(called, FunctionType) and not called.__module__.startswith("mimw."):
            return self._inlined(called, args, kwargs)
        self.fail(f"raw bodies call ops of dialects, types of `ir`, and Python functions that are bodies themselves, not {called!r}")

    def _inlined(self, function: FunctionType, args: list, kwargs: dict) -> Any:
        """A helper of the author's: its body, walked right here."""
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            self.fail(f"{function.__name__}: {error}")
        bound.apply_defaults()
        if self._depth == _DEEPEST:
            self.fail("helpers call each other too deep: a body is written out where it is called, so it cannot call itself")
        return Walker(function, self.threads, self._allocate, self.widest, self._depth + 1).walk(bound.arguments)

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        self._at(node)
        if not isinstance(value, (Number, Vector)):
            kinds = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert}
            return kinds[type(node.op)](value)
        if isinstance(node.op, ast.USub):
            return arith.negf.record(self, [value], {}) if _floats(value) else arith.subi.record(self, [0, value], {})
        if isinstance(node.op, ast.Invert) and not _floats(value):
            return arith.xori.record(self, [value, -1], {})
        self.fail(f"raw bodies have no {type(node.op).__name__} of values")

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        self._at(node)
        return self._binary(node.op, left, right)

    def _binary(self, kind: ast.operator, left: Any, right: Any) -> Any:
        word, plain = _BINARY.get(type(kind), (None, None))
        if word is None:
            self.fail(f"raw bodies have no {type(kind).__name__}")
        shown = next((one for one in (left, right) if isinstance(one, (Number, Vector))), None)
        if shown is None:
            return plain(left, right)
        name = (_OF_FLOATS if _floats(shown) else _OF_INTEGERS).get(word)
        if name is None:
            self.fail(f"raw bodies have no {type(kind).__name__} of {shown.type}")
        return getattr(DIALECTS["arith"], name).record(self, [left, right], {})

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            self.fail("write one comparison at a time")
        left, right = self.value(node.left), self.value(node.comparators[0])
        self._at(node)
        shown = next((one for one in (left, right) if isinstance(one, (Number, Vector))), None)
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return (left is right) == isinstance(node.ops[0], ast.Is)
        if type(node.ops[0]) not in _RELATIONS:
            self.fail(f"raw bodies have no {type(node.ops[0]).__name__}")
        word, plain = _RELATIONS[type(node.ops[0])]
        if shown is None:
            return plain(left, right)
        if _floats(shown):
            return arith.cmpf.record(self, ["UNE" if word == "ne" else f"O{word.upper()}", left, right], {})
        return arith.cmpi.record(self, [word if word in ("eq", "ne") else f"s{word}", left, right], {})

    def _boolop(self, node: ast.BoolOp) -> Any:
        values = [self.value(one) for one in node.values]
        if any(isinstance(one, (Number, Vector)) for one in values):
            self.fail("`and` and `or` are Python's own", "arith.andi and arith.ori take values")
        return all(values) if isinstance(node.op, ast.And) else any(values)

    def _ifexp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if isinstance(test, (Number, Vector)):
            self.fail("Python's `if` cannot ask for a value of the body", "arith.select takes one")
        return self.value(node.body if test else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        of, key = self.value(node.value), self.value(node.slice)
        self._at(node)
        if isinstance(of, Memory):
            return memory.load.record(self, [of, key if isinstance(key, tuple) else (key, )], {})
        try:
            return of[key]
        except (TypeError, KeyError, IndexError) as error:
            self.fail(f"{ast.unparse(node)}: {error}")

    def _slice(self, node: ast.Slice) -> slice:
        return slice(*(None if one is None else self.value(one) for one in (node.lower, node.upper, node.step)))

    def _list(self, node: ast.List) -> list:
        return [self.value(one) for one in node.elts]

    def _tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.value(one) for one in node.elts)

    def _dict(self, node: ast.Dict) -> dict:
        return {self.value(key): self.value(value) for key, value in zip(node.keys, node.values)}

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.value(one.value if isinstance(one, ast.FormattedValue) else one)) for one in node.values)


_PLAIN = (Type, ir.Attribute, InsertionPoint, enum.Enum)
_DEEPEST = 32


def _floats(value: Number | Vector) -> bool:
    return is_float(value.type if isinstance(value, Number) else value.type.element_type)


def _stand_in(name: str, value: Any) -> Any:
    """What a name of the author's module stands for in a body: MLIR's own modules, and Python's `math`, are answered by ours."""
    if isinstance(value, ModuleType):
        if value is host_math:
            return DIALECTS["math"]
        path = value.__name__.split(".")
        if path[0] == "mlir" and path[-1] in _DIALECTS:
            return _DIALECTS[path[-1]]
    return value
