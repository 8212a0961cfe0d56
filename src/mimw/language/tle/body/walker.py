"""Walks a raw body: a Python function that is read, never run, and whose dialect calls are recorded for all threads at once.

Input: the function, the values of its parameters, the threads. Output: ops in the recorder, and what the function returns. For
example:

    def add(x, y, output):
        i = arith.index_cast(ir.IndexType.get(), nvvm.read_ptx_sreg_tid_x())       %lane = make_range; int_cast
        v = arith.addf(tensor.extract(x, [i]), tensor.extract(y, [i]))              local_ptr, load, .., fadd
        tensor.insert(v, output, [i])                                              local_ptr, store

Ops carry the line in the body, and that of the call in the kernel. Names that a body may use: its own, those of the function's
closure and module, the dialects, `ir`, and a few of Python's. What Python knows by itself (lists, numbers, `range`) is worked out
while walking.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from . import arith, branches, debug, extended, functions, hardware, math, memory, vectors, whiles  # noqa: F401
from .branches import If
from .expressions import Expressions
from .loops import For
from .regions import Block, Blocks, InsertionPoint, Structured
from .threads import Threads
from .values import Memory, Number, Vector

_DEEPEST = 32


_TEXTS: WeakKeyDictionary = WeakKeyDictionary()      # a function kept alive would keep all of its module


def text_of(function: FunctionType) -> tuple[str, int]:
    """The function's text, as it was when somebody first asked, and the line of the file where it begins."""
    if function in _TEXTS:
        return _TEXTS[function]
    try:
        lines, start = inspect.getsourcelines(function)
    except OSError as error:
        raise ValueError(f"the text of {function.__name__} cannot be read ({error}): a raw body is read, so it stands in a file") \
            from None
    _TEXTS[function] = found = "".join(lines), start
    return found


def _parsed(function: FunctionType) -> tuple[ast.FunctionDef, int, int]:
    """The function's tree, the line of the file before its first one, and by how much it is indented."""
    text, start = text_of(function)
    return ast.parse(dedent(text)).body[0], start - 1, len(text) - len(text.lstrip())


class Walker(Expressions):
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

    def writes(self, written: Memory, what: str) -> None:
        """An element is written."""
        if written.read_only:
            self.fail(f"{what} writes to {written.name}, which is an Input", f"annotate it as InOut[..] if {what} is meant to")
        written.written = True

    def settle(self) -> None:
        """Put a barrier behind what writes global memory: where a thread of the launch does the work of several, another thread of
        the launch may read what it has written."""
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

    def inlined(self, function: FunctionType, args: list, kwargs: dict) -> Any:
        """A helper of the author's: its body, walked right here."""
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            self.fail(f"{function.__name__}: {error}")
        bound.apply_defaults()
        if self._depth == _DEEPEST:
            self.fail("helpers call each other too deep: a body is written out where it is called, so it cannot call itself")
        return Walker(function, self.threads, self._allocate, self.widest, self._depth + 1).walk(bound.arguments)

    def block(self, statements: list[ast.stmt]) -> None:
        """Walk the statements of one block."""
        self.opened.append([])
        self._statements(statements)
        for op in self.opened.pop():
            op.finish()

    def _statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.at(statement)
            if self.threads.regions[-1].yielded is not None or self.ended:
                self.fail("nothing may stand behind the end of a region")
            visit = getattr(self, f"_{type(statement).__name__}", None)
            if visit is None:
                self.fail(f"raw bodies have no {type(statement).__name__.lower()} statement",
                          "they have assignments, calls, `for` over scf.for_, `with` over scf.if_ and scf.while_, and return")
            visit(statement)

    def at(self, node: ast.AST) -> None:
        """What is recorded, or refused, from here on is about this place in the body."""
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
        self.bind(node.target, self.binary(node.op, self._name(node.target), self.value(node.value)))

    def _Return(self, node: ast.Return) -> None:
        self.end(None if node.value is None else self.value(node.value))

    def end(self, value: Any) -> None:
        """The body is over, and gives this back."""
        if len(self.threads.regions) > self._base:
            self.fail("a raw body returns at its end, outside of all regions")
        self.returned, self.ended = value, True

    def _If(self, node: ast.If) -> None:
        """A condition that is known while walking takes one side."""
        test = self.value(node.test)
        if isinstance(test, (Number, Vector)):
            self.fail("Python's `if` cannot ask for a value of the body", "write `with scf.if_(condition):`")
        self._statements(node.body if test else node.orelse)

    def _For(self, node: ast.For) -> None:
        over = self.value(node.iter)
        self.at(node)
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
        self.at(node)
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

