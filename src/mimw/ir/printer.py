"""Prints a program for people, in a form that `ir.parser` reads back: one op a line, the user's names, source lines at the right.

Input: a program. Output: its text. An example, with all that a line can say:

    kernel fill(%x: *fp32 {tt.divisibility=16}, %n: i32 at 3) on 4 warps {            # fill.py:4
      %0 = addptr %x, %n : *fp32                                                      # fill.py:6:16
      store %0, %n.2, cache_policy=['cache', 'cg', 'evict_normal']                    # helper.py:2:4 in put, from fill.py:7:8
    }
    # fill.py = /home/you/fill.py

Operands stand in the order of the op's row. A constant has its operand's name before it, and so has an operand after one that was
left out. Then come the attributes, then the types of the results. `at 3` is the place in the Python signature, where it is not the
next one; `%n.2` is another value that the user calls `n`; the last lines say where the files are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

from .core import Block, Op, Param, Program, Task, Value
from .flow import region_name
from .launch_facts import ALONE, LaunchFacts
from .ops import OPS
from .site import Site
from .types import Type

_SITE_COLUMN = 96


def print_program(program: Program, sites: bool = True) -> str:
    """The program as text. With `sites`, every op ends in `# file:line`, and the files follow the program."""
    return "\n".join(_Printer(_Sites(program) if sites else None).program(program)) + "\n"


def print_op(op: Op) -> str:
    """One op as text, its regions left out."""
    return _Printer(None).head(op)


def print_constant(constant: Any) -> str:
    """A constant of an op: a number, text, type, layout, enumeration of Triton's, or a tuple of constants."""
    if isinstance(constant, tuple):
        return "[" + ", ".join(map(print_constant, constant)) + "]"
    if constant is None:
        return "none"
    if isinstance(constant, str):
        return repr(constant)
    if is_dataclass(constant) and not isinstance(constant, Type):
        given = (f"{field.name}={print_constant(getattr(constant, field.name))}" for field in fields(constant)
                 if getattr(constant, field.name) != field.default)
        return f"{type(constant).__name__}({', '.join(given)})"
    return getattr(constant, "name", None) or str(constant)


class _Sites:
    """Sites as text: a file by the shortest end of its path that no other file has."""

    def __init__(self, program: Program):
        self.function = program.site.function
        found: dict[Site, None] = {}
        for site in (program.site, *(site for op in program.walk() for site in _sites(op))):
            while site is not None and site not in found:
                found[site] = None
                site = site.caller
        self.files = _shortened(dict.fromkeys(site.file for site in found))

    def text(self, site: Site, usual: str) -> str:
        place = f"{self.files[site.file]}:{site.line}" + (f":{site.column}" if site.column else "")
        outermost = usual if site.caller is None else None
        place += "" if site.function == outermost else f" in {site.function or '?'}"
        return place if site.caller is None else f"{place}, from {self.text(site.caller, usual)}"

    def table(self) -> list[str]:
        return [f"# {short} = {path}" for path, short in sorted(self.files.items(), key=lambda entry: entry[1]) if short != path]


class _Printer:

    def __init__(self, sites: _Sites | None):
        self.sites = sites
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()

    def name(self, value: Value) -> str:
        if value not in self.names:
            text = value.name or str(len(self.names))
            if value.name and not value.name.isidentifier():
                text = repr(value.name)
            if text in self.taken:
                text = f"{text}.{len(self.names)}"
            self.taken.add(text)
            self.names[value] = "%" + text
        return self.names[value]

    def argument(self, arg: Any) -> str:
        if isinstance(arg, Value):
            return self.name(arg)
        if isinstance(arg, tuple):
            return "[" + ", ".join(self.argument(item) for item in arg) + "]"
        return print_constant(arg)

    def head(self, op: Op) -> str:
        results = ", ".join(self.name(result) for result in op.results)
        args = ", ".join(self.arguments(op))
        attrs = "".join(f" {key}={self.argument(value)}" for key, value in op.attrs.items()
                        if key not in ("tasks", "type") and value is not None)
        types = " : " + ", ".join(str(result.type) for result in op.results) if op.results else ""
        return f"{results + ' = ' if results else ''}{op.name}{' ' + args if args else ''}{attrs}{types}"

    def arguments(self, op: Op) -> Iterator[str]:
        after_gap = False
        for name, arg in zip(OPS[op.name].params, op.args):
            if arg is None:
                after_gap = True
                continue
            plain = isinstance(arg, (Value, tuple)) or name in ("value", "type")
            yield self.argument(arg) if plain and not after_gap else f"{name}={self.argument(arg)}"
            after_gap = False

    def line(self, indent: int, text: str, site: Site, usual: str | None = None) -> str:
        text = "  " * indent + text
        if self.sites is None:
            return text
        return f"{text:<{_SITE_COLUMN}}  # {self.sites.text(site, self.sites.function if usual is None else usual)}"

    def op(self, op: Op, indent: int) -> list[str]:
        lines = [self.line(indent, self.head(op), op.site)]
        for index, block in enumerate(op.blocks):
            args = ", ".join(f"{self.name(arg)}: {arg.type}" for arg in block.args)
            label = f"{self.label(op, index)}{'(' + args + ')' if args else ''} {{"
            lines.append(self.line(indent + 1, label, _task(op, index).site) if op.name == "warp_specialize" else
                         "  " * (indent + 1) + label)
            lines += self.block(block, indent + 2)
            lines.append("  " * (indent + 1) + "}")
        return lines

    def label(self, op: Op, index: int) -> str:
        if op.name == "warp_specialize":
            task = _task(op, index)
            registers = f", {task.registers} registers" if task.registers else ""
            replica = f", replica {task.replica} of {task.replicas}" if task.replicas > 1 else ""
            role = "" if task.is_default == (index == 0) else ", default" if task.is_default else ", not default"
            return f"task {task.name!r}{replica}{role} on {task.num_warps} warps{registers}"
        return region_name(op, index)

    def block(self, block: Block, indent: int) -> list[str]:
        return [line for op in block.ops for line in self.op(op, indent)]

    def params(self, params: tuple[Param, ...]) -> Iterator[str]:
        expected = (0, )
        for param in params:
            place = "" if param.path == expected else f" at {param.path[0] if len(param.path) == 1 else print_constant(param.path)}"
            name = "" if param.name == param.value.name else f" as {param.name!r}"
            attrs = ", ".join(f"{key}={print_constant(value)}" for key, value in param.attrs)
            yield f"{self.name(param.value)}: {param.value.type}{place}{name}{' {' + attrs + '}' if attrs else ''}"
            expected = (param.path[0] + 1, )

    def program(self, program: Program) -> list[str]:
        head = f"kernel {program.name}({', '.join(self.params(program.params))}) on {program.num_warps} warps"
        head += "".join(_launch_facts(program.launch_facts))
        if program.uses_words != any(op.row.ours for op in program.walk()):
            head += ", with words" if program.uses_words else ", without words"
        first = self.line(0, head + " {", program.site, program.name)
        return [first, *self.block(program.body, 1), "}", *(self.sites.table() if self.sites else ())]


def _launch_facts(facts: LaunchFacts) -> Iterator[str]:
    if facts.cluster != ALONE:
        yield f" in clusters of {facts.cluster}"
    if facts.mesh_size is not None:
        yield f", a mesh of {facts.mesh_size}"
    if facts.grid_of_clusters:
        yield ", a grid of clusters"
    if facts.grid_meets:
        yield ", the grid meets"
    if facts.suspend_ns is not None:
        yield f", waits sleep {facts.suspend_ns} ns"
    if facts.registers is not None:
        yield f", at most {facts.registers} registers"


def _task(op: Op, index: int) -> Task:
    return op.attrs["tasks"][index]


def _sites(op: Op) -> tuple[Site, ...]:
    return (op.site, *(task.site for task in op.attrs.get("tasks", ())))


def _shortened(paths: Iterable[str]) -> dict[str, str]:
    """path -> the least of its end that no other path has."""
    paths, short = list(paths), {}
    for path in paths:
        parts = PurePath(path).parts
        ends = ("/".join(parts[-count:]) for count in range(1, len(parts)))
        short[path] = next((end for end in ends if sum(f"/{other}".endswith(f"/{end}") for other in paths) == 1), path)
    return short
