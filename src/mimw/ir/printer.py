"""Prints a program for people: one op a line, the user's names, the source line at the right."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from .core import Block, Op, Program, Value
from .ops import OPS
from .types import Type

_SITE_COLUMN = 96


def print_program(program: Program, sites: bool = True) -> str:
    """The program as text. With `sites`, every op ends in `# file:line`."""
    return "\n".join(_Printer(sites).program(program)) + "\n"


def print_op(op: Op) -> str:
    """One op as text, its regions left out."""
    return _Printer(sites=False).head(op)


class _Printer:

    def __init__(self, sites: bool):
        self.sites = sites
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()

    def name(self, value: Value) -> str:
        if value not in self.names:
            text = value.name or str(len(self.names))
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
        if arg is None:
            return "none"
        if isinstance(arg, (int, float, str, Type)):
            return repr(arg) if isinstance(arg, str) else str(arg)
        return getattr(arg, "name", None) or str(arg)

    def head(self, op: Op) -> str:
        results = ", ".join(self.name(result) for result in op.results)
        params = OPS[op.name].params
        args = ", ".join(self.argument(arg) if isinstance(arg, (Value, tuple)) or param in ("value", "type") else
                         f"{param}={self.argument(arg)}" for param, arg in zip(params, op.args) if arg is not None)
        attrs = "".join(f" {key}={self.argument(value)}" for key, value in op.attrs.items()
                        if key not in ("tasks", "type") and value is not None)
        types = " : " + ", ".join(str(result.type) for result in op.results) if op.results else ""
        return f"{results + ' = ' if results else ''}{op.name}{' ' + args if args else ''}{attrs}{types}"

    def line(self, indent: int, text: str, op: Op) -> str:
        text = "  " * indent + text
        if not self.sites:
            return text
        return f"{text:<{_SITE_COLUMN}}  # {PurePath(op.site.file).name}:{op.site.line}"

    def op(self, op: Op, indent: int) -> list[str]:
        lines = [self.line(indent, self.head(op), op)]
        for index, block in enumerate(op.blocks):
            args = ", ".join(f"{self.name(arg)}: {arg.type}" for arg in block.args)
            label = self.label(op, index)
            lines.append("  " * (indent + 1) + f"{label}{'(' + args + ')' if args else ''} {{")
            lines += self.block(block, indent + 2)
            lines.append("  " * (indent + 1) + "}")
        return lines

    def label(self, op: Op, index: int) -> str:
        if op.name == "warp_specialize":
            task = op.attrs["tasks"][index]
            registers = f", {task.registers} registers" if task.registers else ""
            replica = f", replica {task.replica}" if task.replicas > 1 else ""
            return f"task {task.name!r}{replica} on {task.num_warps} warps{registers}"
        return {"if": ("then", "else"), "while": ("before", "after")}.get(op.name, ("body", ))[index]

    def block(self, block: Block, indent: int) -> list[str]:
        return [line for op in block.ops for line in self.op(op, indent)]

    def program(self, program: Program) -> list[str]:
        params = ", ".join(f"{self.name(param.value)}: {param.value.type}" for param in program.params)
        cluster = f" in clusters of {program.cluster}" if program.cluster_size > 1 else ""
        return [f"kernel {program.name}({params}) on {program.num_warps} warps{cluster} {{", *self.block(program.body, 1), "}"]
