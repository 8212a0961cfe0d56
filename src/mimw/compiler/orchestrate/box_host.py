"""The host's part of a lifted kernel, as the text of a Python module.

Input: a `Lifted`. Output: two functions and what they import. For example, of a GEMM by pointers:

    def arguments(grid, a, b, c, M, N, K, ..):      what the kernel by descriptors takes: the same, and the descriptors
    def fits(grid, a, b, c, M, N, K, ..):           "" if it may take them, else a sentence: launch the plain kernel

Both take the plain kernel's grid, a tuple of ints, and its run-time arguments in their order, each field of a tuple by itself. A
kernel whose programs take tiles in turn (`persist.py`) gets the number of tiles and the grid's extents besides.
What depends on numbers alone is kept for the numbers of earlier launches. Spans (`mimw.runtime.spans`) stand for what differs
between programs and trips, so `fits` may refuse a launch that would be right, and takes none that would be wrong.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from types import MappingProxyType

from ...ir import Descriptor, Param, Pointer, Value
from ..analysis.address_forms import Within
from ..analysis.pointer_boxes import ranges_of
from ..analysis.polynomials import Poly, Position, Symbol
from ..analysis.tensor_boxes import Multiple
from .boxes import Lifted

_SPANS = ("Span", "address", "apart", "bits", "counter", "either", "larger", "program", "programs", "quotient", "remainder",
          "smaller", "trips", "within")
_TAKEN = (*_SPANS, "mimw", "functools", "grid", "arguments", "fits", "numbers_fit", "arrays_fit")
_KEPT = 4096        # launches whose numbers are remembered
_WIDTH = 120
_TILES = "programs(grid, 0) * programs(grid, 1) * programs(grid, 2)"
MOST_TILES = 1 << 30    # a tile's number plus that of all programs has to be one of 32 bits


def host_source(lifted: Lifted) -> str:
    """The text of the module. Where `fits` says "", its `arguments` raises only for what no `mimw.TensorDescriptor` takes as a
    base, such as a tensor under another type (`triton.reinterpret`)."""
    imports, functions = host_parts(lifted)
    name = lifted.plain.name
    head = f'"""{name} by descriptors: its arguments, and whether a launch may take them. Written by mimw."""'
    return "\n".join((head, *imports, "", "", functions))


def host_parts(lifted: Lifted, blocks: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
               tiles: Collection[str] = ()) -> tuple[list[str], str]:
    """(lines that import, the functions). `blocks` has by the name of a descriptor the block that a part of its tile has: one
    of the plain kernel's is made anew with it. `tiles` are the parameters of `persist.Persistent`."""
    made = _Module(lifted, blocks, len(tiles))
    return made.text()


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
        poly = self.module.ranges.counted(poly)
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

    def __init__(self, lifted: Lifted, blocks: Mapping[str, tuple[int, ...]], tiles: int):
        self.lifted, self.ranges, self.names, self.blocks = lifted, ranges_of(lifted.plain), _Names(lifted), blocks
        self.scalars: dict[Symbol, str] = {}
        self.tiles = [_TILES, "programs(grid, 0)", "programs(grid, 1)"][:tiles]
        self.descriptors = [self.names.new(one.name) for one in lifted.descriptors]

    def named(self, symbol: Symbol) -> str:
        """The name of a scalar that the host computes, the same in each function."""
        if symbol not in self.scalars:
            rule = self.ranges.rule(symbol)
            plain = symbol.name.replace("@", "_line") or f"{rule.function}_line{self.ranges.site(symbol).line}"
            self.scalars[symbol] = self.names.new(plain)
        return self.scalars[symbol]

    def text(self) -> tuple[list[str], str]:
        name, given = self.lifted.plain.name, self.names.arguments
        made, numbers, arrays = self._made(), self._numbers(), self._arrays()
        in_numbers, in_arrays = (set(re.findall(r"\w+", "\n".join(lines))) for lines in (numbers, arrays))
        known = [one for one in self.names.numbers.values() if one in in_numbers]
        asked = [one for one in given if one in in_arrays]
        sources = {self.names.numbers[value]: source for value, source in self.names.sources.items()}
        called = set(re.findall(r"(\w+)\(", "\n".join((*made, *numbers, *arrays, *self.tiles))))
        used = [one for one in _SPANS if one in called]
        imports = ["import functools", "", "import mimw", *(_call("from mimw.runtime.spans import (", used, ")") if used else ())]
        passed = [self._anew(one) for one in given] + self.descriptors + self.tiles
        return imports, "\n".join((
            *_call("def arguments(", ("grid", *given), "):"),
            *self._said(name),
            *made, *_call("    return (", [*passed[:-1], f"{passed[-1]}, "] if len(passed) == 1 else passed, ")"), "", "",
            *_call("def fits(", ("grid", *given), "):"),
            '    """"" if this launch may take the kernel by descriptors, else why it takes the plain one."""',
            *_call("    fault = numbers_fit(", ("tuple(map(int, grid))", *(f"int({sources[one]})" for one in known)), ")"),
            *_call("    return fault or arrays_fit(", asked, ")"), "", "",
            f"@functools.lru_cache({_KEPT})", *_call("def numbers_fit(", ("grid", *known), "):"),
            '    """The first fault in the numbers of a launch, or ""."""', *numbers, '    return ""', "", "",
            *_call("def arrays_fit(", asked, "):"),
            '    """The first fault in where arrays lie, or ""."""', *arrays, '    return ""', ""))

    def _said(self, name: str) -> list[str]:
        """A description of `arguments`, as the lines of its docstring."""
        head = f'    """The arguments of the kernel, from the grid and the arguments of the plain {name}'
        return [f"{head}. It is launched over", '    `(min(tiles, multiprocessors), )`, or any other number of programs."""'] \
            if self.tiles else [f'{head}."""']

    def _anew(self, name: str) -> str:
        """An argument as the kernel takes it: of a descriptor with another block one with that block."""
        block = self.blocks.get(name)
        return name if block is None else (f"mimw.TensorDescriptor({name}.base, {name}.shape, {name}.strides, {list(block)}, "
                                           f"{name}.padding)")

    def _made(self) -> list[str]:
        """The lines that make the descriptors."""
        scope = _Scope(self, self.names.sources)
        for host, name in zip(self.lifted.descriptors, self.descriptors):
            shape, strides = ([scope.expression(one) for one in many] for many in (host.shape, host.strides))
            scope.lines.append(f"    {name} = mimw.TensorDescriptor({self.names.of_param[host.base]}, [{', '.join(shape)}], "
                               f"[{', '.join(strides)}], {list(self.blocks.get(host.name, host.block))})")
        return scope.lines

    def _numbers(self) -> list[str]:
        """The questions about arguments that are numbers, and about the grid."""
        scope = _Scope(self, self.names.numbers)
        scope.lines += self._grid()
        for one in _needed(self.lifted):
            value = scope.expression(one.poly)
            inner = value if value.isidentifier() else f"({value})"
            fault = f"{inner} % {one.of} != 0" if isinstance(one, Multiple) else f"not within({value}, {one.least}, {one.most})"
            said = f"line {one.site.line}: {one.what.format(poly=self.ranges.shown(one.poly))}"
            here = f'f"{said}: {{{value}}}"' if self.ranges.is_exact(one.poly) else f'"{said}"'
            scope.lines += [f"    if {fault}:", f"        return {here}"]
        return scope.lines

    def _grid(self) -> list[str]:
        """The questions about a grid whose tiles are taken in turn."""
        if not self.tiles:
            return []
        lines = [f"    if {_TILES} > {MOST_TILES}:", f'        return "more than {MOST_TILES} tiles are counted in 32 bits"']
        if len(self.tiles) == 1:
            lines += ["    if programs(grid, 1) * programs(grid, 2) != 1:",
                      '        return "the grid has several axes, and the kernel asks for its place along the first one alone"']
        return lines

    def _arrays(self) -> list[str]:
        """The questions about arrays: where they begin, and whether two of them share a byte. Launches that come again are asked
        the same without these lines (tools/orchestrate/repeated.py): a question of another kind has to be asked there, too."""
        lines = []
        for base in dict.fromkeys(host.base for host in self.lifted.descriptors):
            lines += [f"    if address({self.names.of_param[base]}) % 16:",
                      f'        return "{base} does not begin at a multiple of 16 bytes"']
        for one, other, site in self.lifted.apart:
            lines += [f"    if not apart({self.names.of_param[one]}, {self.names.of_param[other]}):",
                      f'        return "line {site.line}: {one} and {other} overlap, and the kernel writes one of them"']
        return lines


def _call(head: str, parts: Iterable[str], tail: str) -> list[str]:
    """head, the parts and commas between them, tail: in as many lines as it takes."""
    whole = f"{head}{', '.join(parts)}{tail}"
    if head.startswith("from") and len(whole) <= _WIDTH + 2:
        whole = whole.replace("(", "").replace(")", "")
    return textwrap.wrap(whole, _WIDTH, subsequent_indent=" " * len(head), break_long_words=False)


def _needed(lifted: Lifted) -> list[Within | Multiple]:
    """All assumptions, each once, without those that a narrower one implies."""
    every = list(dict.fromkeys((*(one for host in lifted.descriptors for one in host.assumed), *lifted.assumed)))

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
