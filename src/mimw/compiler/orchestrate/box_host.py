"""The host's part of a lifted kernel, as the text of a Python module.

Input: a `Lifted`. Output: two functions and what they import. For example, of a GEMM by pointers:

    def arguments(a, b, c, M, N, K, stride_am, ..):     what the kernel by descriptors takes: the same, and the descriptors
    def fits(grid, a, b, c, M, N, K, stride_am, ..):    "" if it may take them, else a sentence: launch the plain kernel

Both take the run-time arguments of the plain kernel in their order, each field of a tuple by itself; `grid` is a tuple of ints.
What depends on numbers alone is kept for the numbers of earlier launches. Spans (`mimw.runtime.spans`) stand for what differs
between programs and trips, so `fits` may refuse a launch that would be right, and takes none that would be wrong.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import groupby
from types import MappingProxyType

from ...ir import Descriptor, Param, Pointer, Program, Value
from ..analysis.address_forms import Within
from ..analysis.pointer_boxes import ranges_of
from ..analysis.polynomials import Poly, Position, Symbol
from ..analysis.tensor_boxes import Multiple
from .box_rewrite import HostDescriptor
from .boxes import Lifted

_SPANS = ("Span", "address", "apart", "bits", "counter", "either", "larger", "program", "programs", "quotient", "remainder",
          "smaller", "trips", "within")
_TAKEN = (*_SPANS, "mimw", "functools", "grid", "arguments", "fits", "numbers_fit", "arrays_fit")
_KEPT = 4096        # launches whose numbers are remembered
_WIDTH = 120


def host_source(lifted: Lifted, program: Program | None = None, blocks: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
                apart: Iterable[tuple[str, str]] = ()) -> str:
    """The text of the module. Where `fits` says "", its `arguments` raises only for what no `mimw.TensorDescriptor` takes as a
    base, such as a tensor under another type (`triton.reinterpret`).

    args:      lifted    as `boxes.lifted` gives it
               program   (opt) what later steps made of its program: the arguments are this one's, by their names
               blocks    (opt) by the name of a descriptor the block in which that program sees it, where a consumer stores its rows
               apart     (opt) further arguments of that program, in pairs, that may share no byte
    """
    return _Module(lifted, program or lifted.program, blocks, apart).text()


class _Names:
    """Names of Python for the arguments and scalars of a program."""

    def __init__(self, lifted: Lifted):
        self.taken = set(_TAKEN)
        self.given = [list(group) for _, group in groupby(lifted.plain.params, key=lambda param: param.path)]
        self.arguments = [self.new(group[0].name) for group in self.given]
        self.of_param = {param.name: name for group, name in zip(self.given, self.arguments) for param in group}
        self.numbers: dict[Value, str] = {}         # integers of the launch: what they are called
        self.sources: dict[Value, str] = {}         # .. and where they come from
        for group, name in zip(self.given, self.arguments):
            for place, param in enumerate(group):
                self._number(param, name, place, group)

    def new(self, wanted: str) -> str:
        """A name that nothing has yet, as near to `wanted` as can be."""
        base = re.sub(r"\W", "_", wanted) or "number"
        base, name, count = (base if not base[0].isdigit() else f"_{base}"), "", 1
        while not name or name in self.taken:
            name, count = f"{base}{'_' * base[-1].isdigit()}{count}" if count > 1 else base, count + 1
        self.taken.add(name)
        return name

    def _number(self, param: Param, name: str, place: int, group: list[Param]) -> None:
        if isinstance(param.value.type, (Pointer, Descriptor)):
            return
        source = name
        if isinstance(group[0].value.type, Descriptor):
            rank = len(group[0].value.type.shape)
            field = "shape" if place <= rank else "strides"
            source = f"{name}.{field}[{(place - 1) % rank}]"
        self.numbers[param.value] = name if source == name else self.new(param.name)
        self.sources[param.value] = source


class _Scope:
    """The body of one function: the scalars that it has computed, and its lines."""

    def __init__(self, module: _Module, names: dict[Value, str]):
        self.module, self.known, self.lines = module, dict(names), []

    def expression(self, poly: Poly) -> str:
        """A polynomial as an expression of names that are there; lines before it compute them."""
        for symbol in poly.symbols:
            self._define(symbol)
        return poly.text(self._name)

    def _name(self, symbol: Symbol) -> str:
        return f"Span(0, {symbol.extent - 1})" if isinstance(symbol, Position) else self.known[symbol]

    def _define(self, symbol: Symbol) -> None:
        if symbol in self.known or isinstance(symbol, Position):
            return
        rule, ranges = self.module.ranges.rule(symbol), self.module.ranges
        if rule.function in ("program", "programs"):
            inside = f"grid, {rule.operands[0]}"
        else:
            inside = ", ".join(self._in_bits(operand, rule.bits) for operand in rule.operands)
        name = self.module.named(symbol)
        self.known[symbol] = name
        self.lines.append(f"    {name} = {rule.function}({inside})  # line {ranges.site(symbol).line}")

    def _in_bits(self, poly: Poly, count: int) -> str:
        return str(poly) if poly.constant is not None else f"bits({self.expression(poly)}, {count})"


class _Module:

    def __init__(self, lifted: Lifted, program: Program, blocks: Mapping[str, tuple[int, ...]], apart: Iterable[tuple[str, str]]):
        self.lifted, self.program, self.blocks = lifted, program, blocks
        self.ranges, self.names = ranges_of(lifted.plain), _Names(lifted)
        self.scalars: dict[Symbol, str] = {}
        self.descriptors = {one.name: self.names.new(one.name) for one in lifted.descriptors}
        bases = {one.name: one.base for one in lifted.descriptors}
        asked = {frozenset(pair[:2]) for pair in lifted.apart}
        more = {(bases.get(one, one), bases.get(other, other)) for one, other in apart}
        self.more = sorted(pair for pair in more if frozenset(pair) not in asked)

    def named(self, symbol: Symbol) -> str:
        """The name of a scalar that the host computes, the same in each function."""
        if symbol not in self.scalars:
            rule = self.ranges.rule(symbol)
            plain = symbol.name.replace("@", "_line") or f"{rule.function}_line{self.ranges.site(symbol).line}"
            self.scalars[symbol] = self.names.new(plain)
        return self.scalars[symbol]

    def text(self) -> str:
        name, given = self.lifted.plain.name, self.names.arguments
        made, numbers, arrays = self._made(), self._numbers(), self._arrays()
        in_numbers, in_arrays = (set(re.findall(r"\w+", "\n".join(lines))) for lines in (numbers, arrays))
        known = [one for one in self.names.numbers.values() if one in in_numbers]
        asked = [one for one in given if one in in_arrays]
        sources = {self.names.numbers[value]: source for value, source in self.names.sources.items()}
        called = set(re.findall(r"(\w+)\(", "\n".join((*made, *numbers, *arrays))))
        used = [one for one in _SPANS if one in called]
        return "\n".join((
            f'"""{name} by descriptors: its arguments, and whether a launch may take them. Written by mimw."""',
            "import functools", "", "import mimw", *(_call("from mimw.runtime.spans import (", used, ")") if used else ()), "", "",
            *_call("def arguments(", given, "):"),
            f'    """The arguments of {name} by descriptors, from those of the plain kernel."""',
            *made, *_call("    return (", self._returned(), ")"), "", "",
            *_call("def fits(", ("grid", *given), "):"),
            '    """"" if this launch may take the kernel by descriptors, else why it takes the plain one."""',
            *_call("    fault = numbers_fit(", ("tuple(map(int, grid))", *(f"int({sources[one]})" for one in known)), ")"),
            *_call("    return fault or arrays_fit(", asked, ")"), "", "",
            f"@functools.lru_cache({_KEPT})", *_call("def numbers_fit(", ("grid", *known), "):"),
            '    """The first fault in the numbers of a launch, or ""."""', *numbers, '    return ""', "", "",
            *_call("def arrays_fit(", asked, "):"),
            '    """The first fault in where arrays lie, or ""."""', *arrays, '    return ""', ""))

    def _made(self) -> list[str]:
        """The lines that make the descriptors."""
        scope = _Scope(self, self.names.sources)
        for host in self.lifted.descriptors:
            shape, strides = ([scope.expression(one) for one in many] for many in (host.shape, host.strides))
            name, base = self.descriptors[host.name], self.names.of_param[host.base]
            scope.lines.append(f"    {name} = mimw.TensorDescriptor({base}, [{', '.join(shape)}], [{', '.join(strides)}], "
                               f"{list(self.blocks.get(host.name, host.block))})")
        return scope.lines

    def _returned(self) -> list[str]:
        """The arguments of the program, in its order."""
        found = []
        for name in {param.path: param.name for param in reversed(self.program.params)}.values():
            own = self.descriptors.get(name) or self.names.of_param[name]
            if name in self.blocks and name not in self.descriptors:
                own = f"mimw.TensorDescriptor({own}.base, {own}.shape, {own}.strides, {list(self.blocks[name])}, {own}.padding)"
            found.append(own)
        return found[::-1] if len(found) > 1 else [*found, ""]

    def _numbers(self) -> list[str]:
        """The questions about arguments that are numbers, and about the grid."""
        scope = _Scope(self, self.names.numbers)
        for one in _needed(self.lifted.descriptors):
            value = scope.expression(one.poly)
            inner = value if value.isidentifier() else f"({value})"
            fault = f"{inner} % {one.of} != 0" if isinstance(one, Multiple) else f"not within({value}, {one.least}, {one.most})"
            said = f"line {one.site.line}: {one.what.format(poly=self.ranges.shown(one.poly))}"
            here = f'f"{said}: {{{value}}}"' if self.ranges.is_exact(one.poly) else f'"{said}"'
            scope.lines += [f"    if {fault}:", f"        return {here}"]
        return scope.lines

    def _arrays(self) -> list[str]:
        """The questions about arrays: where they begin, and whether two of them share a byte."""
        lines = []
        for base in dict.fromkeys(host.base for host in self.lifted.descriptors):
            lines += [f"    if address({self.names.of_param[base]}) % 16:",
                      f'        return "{base} does not begin at a multiple of 16 bytes"']
        for one, other, site in self.lifted.apart:
            lines += [f"    if not apart({self.names.of_param[one]}, {self.names.of_param[other]}):",
                      f'        return "line {site.line}: {one} and {other} overlap, and the kernel writes one of them"']
        for one, other in self.more:
            lines += [f"    if not apart({self.names.of_param[one]}, {self.names.of_param[other]}):",
                      f'        return "{one} and {other} overlap, and one is read ahead of what is written to the other"']
        return lines


def _call(head: str, parts: Iterable[str], tail: str) -> list[str]:
    """head, the parts and commas between them, tail: in as many lines as it takes."""
    whole = f"{head}{', '.join(parts)}{tail}"
    if head.startswith("from") and len(whole) <= _WIDTH + 2:
        whole = whole.replace("(", "").replace(")", "")
    return textwrap.wrap(whole, _WIDTH, subsequent_indent=" " * len(head), break_long_words=False)


def _needed(descriptors: tuple[HostDescriptor, ...]) -> list[Within | Multiple]:
    """The assumptions of the descriptors, each once, without those that a narrower one implies."""
    every = list(dict.fromkeys(one for host in descriptors for one in host.assumed))

    def implied(one: Within | Multiple, place: int) -> bool:
        for at, other in enumerate(every):
            if isinstance(one, Multiple):
                same = isinstance(other, Multiple) and other.poly == one.poly and other.of % one.of == 0
                narrower = same and other.of > one.of
            else:
                same = isinstance(other, Within) and other.poly == one.poly and one.least <= other.least and other.most <= one.most
                narrower = same and (one.least, one.most) != (other.least, other.most)
            if same and (narrower or at < place):
                return True
        return False

    return [one for place, one in enumerate(every) if not implied(one, place)]
