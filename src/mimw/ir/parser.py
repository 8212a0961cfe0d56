"""Reads a program from its text: the inverse of `ir.printer`.

Input: text as `print_program` makes it. Output: an equal `Program`. An example, with what may be left out when written by hand:

    kernel twice(%x: *i32) on 4 warps {
      %0 = load %x, is_volatile=False         # k.py:3:8      the type follows from the op's row; so does the site from the text
      %1 = add %0, %0
      store %x, %1
    }

`parse_program(text, "k.ir")` gives the program; an op without `# file:line` has its place in the text as its site. What is wrong
is an `IRSyntaxError` with line and column: unknown ops, operands that do not fit the row, values that are not defined. `verify`
then looks at regions. Enumerations of Triton's are found by `enumerations(class, member)`, since this folder does not know Triton.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from .argument_parser import ArgumentReader, Enumerations, closest, separated
from .core import Block, Op, Param, Program, Task, Value
from .facts_parser import parse_facts
from .lexer import Line
from .operands import attribute_problem, problem
from .ops import OPS, OpDef, result_types
from .site import Site
from .site_parser import SiteReader, split_files
from .type_parser import parse_int, parse_type


def parse_program(text: str, file: str = "<text>", enumerations: Enumerations = lambda enumeration, member: None) -> Program:
    """The program that `text` describes. `file` is what errors, and the sites of ops that say none, call the text."""
    return _Parser(text, file, enumerations).program()


class _Parser:

    def __init__(self, text: str, file: str, enumerations: Enumerations):
        self.values, self.made = {}, 0
        self.arguments = ArgumentReader(self.used, enumerations)
        body, files = split_files(text.splitlines())
        lines = (Line(source, file, number) for number, source in body)
        self.lines = [line for line in lines if line.kind != "end"]
        self.sites = SiteReader(files)
        self.place, self.last = 0, Line("", file, max(1, len(text.splitlines())))

    # ---- lines ------------------------------------------------------------------------------------------------------

    @property
    def line(self) -> Line:
        """The line that is being read."""
        return self.lines[self.place] if self.place < len(self.lines) else self.last

    def end_line(self) -> None:
        self.line.finish()
        self.place += 1

    def site(self, line: Line, usual: str | None = None) -> Site:
        function = self.sites.function if usual is None else usual
        return self.sites.read(line, usual) or Site(line.file, line.number, line.tokens[0][2] - 1, function)

    # ---- values -----------------------------------------------------------------------------------------------------

    def new_value(self, text: str, type_) -> Value:
        """A value that the text calls so; `%acc.12` is another one that the user calls `acc`."""
        name = text[1:]
        if name[0] in "'\"":
            name = ast.literal_eval(name[:name.rindex(name[0]) + 1])
        else:
            name = name.partition(".")[0]
        value = Value(type_, "" if name.isdigit() else name, self.made)
        self.made += 1
        return value

    def define(self, line: Line, column: int, text: str, value: Value) -> None:
        if text in self.values:
            line.fail(f"{text} is defined twice", column, mend="give one of the two values another name")
        self.values[text] = value

    def used(self, line: Line) -> Value:
        column, text = line.column, line.take("value", "a value")
        if text not in self.values:
            close = get_close_matches(text, self.values, n=1)
            line.fail(f"{text} is not defined above" + (f", did you mean {close[0]}?" if close else ""), column)
        return self.values[text]

    def typed_values(self, line: Line) -> list[tuple[int, str, Value]]:
        """`%i: i32, %acc: fp32[64]`: a column, the text and a new value each."""
        found = []
        while line.text != ")":
            if found:
                line.expect(",")
            column, text = line.column, line.take("value", "a value")
            line.expect(":")
            found.append((column, text, self.new_value(text, parse_type(line))))
        return found

    # ---- ops --------------------------------------------------------------------------------------------------------

    def op(self) -> Op:
        line = self.line
        names = self.result_names(line)
        at, name = line.column, line.take("word", "an op")
        if name not in OPS:
            line.fail(f"no op is named {name!r}{closest(name, OPS)}", at)
        row, site = OPS[name], self.site(line)
        args, attrs = self.operands(line, row)
        typed, types_at = line.skip(":"), line.column
        types = tuple(self.result_types(line)) if typed else ()
        if len(types) == 1 and "type" in row.attributes:
            attrs["type"] = types[0]
        self.end_line()
        if wrong := problem(row.operands, args):
            line.fail(f"{name}: {wrong}", at)
        expected = _expected(line, at, name, args, attrs)
        if types and types != expected:
            line.fail(f"{name} gives {', '.join(map(str, expected)) or 'no result'}, not {', '.join(map(str, types))}", types_at)
        if len(names) != len(expected):
            line.fail(f"{name} gives {len(expected)} results, and {len(names)} are named", names[0][0] if names else at)
        results = tuple(self.new_value(text, type_) for (_, text), type_ in zip(names, expected))
        blocks, tasks = self.regions(name)
        if tasks:
            attrs["tasks"] = tasks
        if wrong := attribute_problem(row.attributes, attrs):
            line.fail(f"{name}: {wrong}", at)
        for (column, text), result in zip(names, results):
            self.define(line, column, text, result)
        return Op(name, args, results, blocks, MappingProxyType(attrs), site)

    def result_names(self, line: Line) -> list[tuple[int, str]]:
        names = []
        while line.kind == "value":
            names.append((line.column, line.take("value")))
            if not line.skip(","):
                line.expect("=")
                break
        return names

    def operands(self, line: Line, row: OpDef) -> tuple[tuple, dict[str, Any]]:
        """The arguments in the order of the row, None for an omitted one; and the attributes."""
        args: list[Any] = [None] * len(row.operands)
        attrs: dict[str, Any] = {}
        following = 0
        while line.kind != "end" and line.text != ":":
            column = line.column
            if line.kind == "word" and line.after() == "=":
                key = line.take("word")
                line.expect("=")
                if key not in row.places:
                    if key not in row.attributes:
                        line.fail(f"{row.name} has no operand or attribute {key!r}{closest(key, (*row.params, *row.attributes))}",
                                  column)
                    attrs[key] = self.arguments.read(line, row.attributes[key])
                    continue
                following = row.places[key]
            if following >= len(args):
                line.fail(f"{row.name} has the operands {', '.join(row.params) or '(none)'}, and no more", column)
            args[following] = self.arguments.read(line, row.operands[following])
            following += 1
            line.skip(",")
        return tuple(args), attrs

    def result_types(self, line: Line) -> Iterator[Any]:
        yield parse_type(line)
        while line.skip(","):
            yield parse_type(line)

    # ---- regions ----------------------------------------------------------------------------------------------------

    def regions(self, name: str) -> tuple[tuple[Block, ...], tuple[Task, ...]]:
        blocks, tasks = [], []
        for label in OPS[name].regions if name != "warp_specialize" else ():
            line = self.line
            line.expect(label)
            blocks.append(self.block(line))
        while name == "warp_specialize" and self.line.text == "task":
            line = self.line
            tasks.append(self.task(line, not tasks))
            blocks.append(self.block(line))
        return tuple(blocks), tuple(tasks)

    def task(self, line: Line, first: bool) -> Task:
        site = self.site(line)
        line.expect("task")
        name, replica, replicas, default, registers = ast.literal_eval(line.take("text", "the task's name")), 0, 1, first, None
        while line.skip(","):
            if line.skip("replica"):
                replica = parse_int(line)
                line.expect("of")
                replicas = parse_int(line)
            else:
                default = not line.skip("not")
                line.expect("default")
        line.expect("on")
        warps = parse_int(line)
        line.expect("warps")
        if line.skip(","):
            registers = parse_int(line)
            line.expect("registers")
        return Task(name, warps, default, registers, replica, replicas, site)

    def block(self, line: Line) -> Block:
        """The block that begins with the rest of this line: arguments, then ops up to the closing brace."""
        with self.scope():
            args = []
            if line.skip("("):
                args = self.typed_values(line)
                line.expect(")")
            for column, text, value in args:
                self.define(line, column, text, value)
            line.expect("{")
            self.end_line()
            return Block(tuple(value for _, _, value in args), self.ops())

    def ops(self) -> tuple[Op, ...]:
        found = []
        while self.line.text != "}":
            if self.line is self.last:
                self.line.fail("the text ends inside a block", mend="close it by '}'")
            found.append(self.op())
        self.line.expect("}")
        self.end_line()
        return tuple(found)

    @contextmanager
    def scope(self):
        """Forget, at the end of the block, the values that were defined in it."""
        outside, self.values = self.values, dict(self.values)
        yield
        self.values = outside

    # ---- the kernel -------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        line = self.line
        if line.text != "kernel":
            line.fail(f"'kernel' is expected, not {line.shown()}", mend="IR begins with `kernel NAME(%x: *fp32) on 4 warps {`, "
                      "as `mimw compile --emit ir` prints it")
        line.expect("kernel")
        name = line.take("word", "the kernel's name")
        site = self.site(line, name)
        self.sites.function = site.function
        line.expect("(")
        params = tuple(self.params(line))
        line.expect("on")
        head = Program(name, params, Block((), ()), parse_int(line), site)
        line.expect("warps")
        facts, words = parse_facts(line)
        line.expect("{")
        self.end_line()
        program = replace(head, body=Block((), self.ops()), launch_facts=facts)
        if self.line is not self.last:
            self.line.fail("one kernel is read from a text, and it ends above")
        return replace(program, uses_words=program.orchestrates() if words is None else words)

    def params(self, line: Line) -> Iterator[Param]:
        expected: tuple[int, ...] = (0, )
        while not line.skip(")"):
            if expected != (0, ):
                line.expect(",")
            column, text = line.column, line.take("value", "a parameter")
            line.expect(":")
            value = self.new_value(text, parse_type(line))
            self.define(line, column, text, value)
            path, name, attrs = expected, value.name, ()
            if line.skip("at"):
                path = self.arguments.read(line, None)
                path = path if isinstance(path, tuple) else (path, )
            if line.skip("as"):
                name = ast.literal_eval(line.take("text"))
            if line.skip("{"):
                attrs = tuple(separated(line, "}", lambda: self.param_attribute(line)))
            yield Param(value, name, path, attrs)
            expected = (path[0] + 1, )

    def param_attribute(self, line: Line) -> tuple[str, Any]:
        key = line.take("word", "an attribute")
        line.expect("=")
        return key, self.arguments.read(line, None)


def _expected(line: Line, column: int, name: str, args: tuple, attrs: dict[str, Any]) -> tuple:
    try:
        return tuple(result_types(name, args, attrs))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        line.fail(f"the operands of {name} do not fit each other: {error}", column)

