"""Expressions of raw bodies: names, calls of ops, Python's operators on values of the body and on what Python knows.

Input: an expression of the body's tree. Output: what it stands for, and the ops that work it out. For example:

    arith.addf(a, b)        the op's record
    a + b                   arith.addf or arith.addi, as the values are
    [16, 8, 4][0]           16, worked out while walking
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math as host_math
import operator
from difflib import get_close_matches
from types import FunctionType, ModuleType
from typing import Any

from ....errors import MimwError, UnknownSymbolError
from . import arith, ir, memory
from .dialect import DIALECTS, Op
from .regions import InsertionPoint
from .types import Type, is_float
from .values import Memory, Number, Vector

_PYTHON = {name: getattr(builtins, name) for name in ("range", "len", "int", "float", "bool", "list", "tuple", "min", "max", "abs",
                                                      "zip", "enumerate", "reversed", "sum")}
_DIALECTS = {**DIALECTS, "ir": ir.MODULE}
_BINARY = {ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
           ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv), ast.Mod: ("rem", operator.mod),
           ast.BitAnd: ("and", operator.and_), ast.BitOr: ("or", operator.or_), ast.BitXor: ("xor", operator.xor),
           ast.LShift: ("shl", operator.lshift), ast.RShift: ("shr", operator.rshift), ast.Pow: ("pow", operator.pow)}
_OF_INTEGERS = {"add": "addi", "sub": "subi", "mul": "muli", "div": "divsi", "floordiv": "floordivsi", "rem": "remsi",
                "and": "andi", "or": "ori", "xor": "xori", "shl": "shli", "shr": "shrsi"}
_OF_FLOATS = {"add": "addf", "sub": "subf", "mul": "mulf", "div": "divf", "rem": "remf"}
_RELATIONS = {ast.Lt: ("lt", operator.lt), ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge),
              ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne)}
_PLAIN = (Type, ir.Attribute, InsertionPoint, enum.Enum)


class Expressions:
    """Mixin of the walker. `names` are the body's, `outer` those of its module and closure."""

    names: dict[str, Any]
    outer: dict[str, Any]
    function: FunctionType

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        visit = getattr(self, f"_{type(node).__name__.lower()}", None)
        if visit is None:
            self.at(node)
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
        self.at(node)
        close = get_close_matches(name, [*self.names, *self.outer, *_DIALECTS], n=2, cutoff=0.7)
        hint = f". Did you mean {' or '.join(close)}?" if close else ""
        self.fail(f"{name!r} is not known in the raw body {self.function.__name__}{hint}",
                  f"a body may use its parameters, names of its module, and the dialects {', '.join(sorted(_DIALECTS))}",
                  UnknownSymbolError)

    def _attribute(self, node: ast.Attribute) -> Any:
        of = self.value(node.value)
        self.at(node)
        try:
            return getattr(of, node.attr)
        except AttributeError as error:
            text = str(error) if isinstance(of, ModuleType) else f"{of!r} has no {node.attr!r}"
            self.fail(text, kind=UnknownSymbolError)

    def _call(self, node: ast.Call) -> Any:
        called = self.value(node.func)
        args = [item for argument in node.args for item in (self.value(argument.value) if isinstance(argument, ast.Starred)
                                                           else [self.value(argument)])]
        kwargs = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        self.at(node)
        if called is range and any(isinstance(one, Number) for one in args):
            called = DIALECTS["scf"].for_       # `range` over what only the run knows is a loop
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
            return self.inlined(called, args, kwargs)
        self.fail("raw bodies call ops of dialects, types of `ir`, and Python functions that are bodies themselves, "
                  f"not {called!r}")

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        self.at(node)
        if not isinstance(value, (Number, Vector)):
            kinds = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert}
            return kinds[type(node.op)](value)
        numbers = DIALECTS["arith"]
        if isinstance(node.op, ast.USub):
            return numbers.negf.record(self, [value], {}) if _floats(value) else numbers.subi.record(self, [0, value], {})
        if isinstance(node.op, ast.Invert) and not _floats(value):
            return numbers.xori.record(self, [value, -1], {})
        self.fail(f"raw bodies have no {type(node.op).__name__} of values")

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        self.at(node)
        return self.binary(node.op, left, right)

    def binary(self, kind: ast.operator, left: Any, right: Any) -> Any:
        """The result of one of Python's operators on two operands."""
        word, plain = _BINARY.get(type(kind), (None, None))
        if word is None:
            self.fail(f"raw bodies have no {type(kind).__name__}")
        shown = next((one for one in (left, right) if isinstance(one, (Number, Vector))), None)
        if shown is None:
            try:
                return plain(left, right)
            except (ArithmeticError, TypeError, ValueError) as error:
                self.fail(str(error))
        name = (_OF_FLOATS if _floats(shown) else _OF_INTEGERS).get(word)
        if name is None:
            self.fail(f"raw bodies have no {type(kind).__name__} of {shown.type}")
        return getattr(DIALECTS["arith"], name).record(self, [left, right], {})

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            self.fail("write one comparison at a time")
        left, right = self.value(node.left), self.value(node.comparators[0])
        self.at(node)
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
        self.at(node)
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


def _floats(value: Number | Vector) -> bool:
    return is_float(value.type if isinstance(value, Number) else value.type.element_type)


def _stand_in(name: str, value: Any) -> Any:
    """The value of a name of the author's module in a body: for MLIR's own modules, and Python's `math`, our modules."""
    if isinstance(value, ModuleType):
        if value is host_math:
            return DIALECTS["math"]
        path = value.__name__.split(".")
        if path[0] == "mlir" and path[-1] in _DIALECTS:
            return _DIALECTS[path[-1]]
    return value
