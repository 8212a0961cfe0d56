"""PTX functions as a kernel takes them in: names that are unique, and the text of a call.

Input: the parts of a PTX text and the name of the function to call. Output: a `Unit`: what goes to the module's top, and the
function's body as straight text where that is possible. For example, of `.func f(.param .b64 x) { ld.param.u64 %rd1, [x]; .. }`:

    unit.module                     helpers and tables, under names like raw_6f0c_helper
    unit.call(["$0", "$1"])         { .reg .b64 %rd<4>; mov.b64 %rd1, $0; .. raw_6f0c_end: }

A body in place leaves ptxas nothing to call: a call would keep it from overlapping wgmma with anything. Where a parameter is a
structure, the function goes to the top and is called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .ptx import Function, Module, Param, PtxError

_WORD = re.compile(r"(?<![\w$%.])[\w$%]+(?![\w$%.])")     # a name; what has a dot beside it is an instruction or a part of one
_LABEL = re.compile(r"(?:^|(?<=[;{}\s]))([\w$]+)\s*:(?!:)")
_LOC = re.compile(r"^\s*\.(?:loc|pragma)\b[^\n;]*;?", re.MULTILINE)
_RETURN = re.compile(r"\bret(?:\.uni)?\s*;")
_READ = re.compile(r"\bld\.param\.([a-z]+\d+)\s+([\w$%]+)\s*,\s*\[\s*([\w$%]+)\s*(?:\+\s*(\d+)\s*)?\]\s*;")
_WRITE = re.compile(r"\bst\.param\.([a-z]+\d+)\s*\[\s*([\w$%]+)\s*(?:\+\s*(\d+)\s*)?\]\s*,\s*([\w$%.]+)\s*;")
# A barrier of all threads of a CTA, which is one of those that run the code; and what has no such twin.
_SYNC = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?\s+0\s*;")
_CTA_WIDE = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.(?:sync(?:\.aligned)?\s+\w+|red[\w.]*[^;,]*,[^;,]*,[^;,]*)\s*;"
                       r"|%n?tid\.[xyz]\b")
_NAMED = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.(?:sync|arrive)(?:\.aligned)?\s+(\d+)\s*,")
_THREAD = {"%tid.x": "\x01tid\x02", "%ntid.x": "\x01ntid\x02"}
_MARK = re.compile("\x01(\\w+)\x02")


@dataclass(frozen=True)
class Unit:
    """A function ready to be called: `returns` is the number of bits of a number that it returns (0: none), `result_bytes`
    the size of a structure. `cta_wide` names an operation on a whole CTA in it that cannot be done for the threads of one
    task."""

    symbol: str
    parameters: tuple[Param, ...]
    returns: int
    result_bytes: int
    module: str
    body: str | None
    cta_wide: tuple[str, ...] = ()
    barriers: tuple[int, ...] = ()      # hardware barriers by number, besides that of all threads that run the code
    in_clusters: bool = False           # it has a barrier of a cluster

    @property
    def scope(self) -> str:
        """The widest synchronisation in the text: that of a warp goes without saying."""
        in_block = self.cta_wide or self.barriers or "\x01sync\x02" in (self.body or "")
        return "cluster" if self.in_clusters else "block" if in_block else "warp"

    @property
    def widths(self) -> tuple[int, ...]:
        """The bits of each parameter."""
        return tuple(8 * one.bytes or one.bits for one in self.parameters)

    @property
    def pieces(self) -> range:
        """The offsets in bytes of the 64-bit pieces of a structure that is returned."""
        return range(0, self.result_bytes, 8)

    def call(self, arguments: list[str], words: dict[str, str]) -> str:
        """The text of a call, one line, for inline assembly.

        args:      arguments  operands or registers of the widths of the parameters
                   words      what stands for `tid` and `ntid`, the thread among those that run the code and their number, for
                              `sync`, a barrier among them, and for `result`, where a number that is returned goes. The pieces of
                              a structure go to registers raw_piece<offset>, which the caller declares
        """
        if self.body is None:
            return self._called(arguments, words["result"])
        given = {**dict(zip(map(str, range(len(arguments))), arguments)), **words}
        return _MARK.sub(lambda found: given.get(found[1]) or f"raw_{found[1]}", self.body.replace("$", "$$"))

    def _called(self, arguments: list[str], result: str) -> str:
        lines = [f".param {f'.align {one.bytes} .b8' if one.bytes else f'.b{one.bits}'} raw_in{number}"
                 f"{f'[{one.bytes}]' if one.bytes else ''}; st.param.b{width} [raw_in{number}], {argument};"
                 for number, (one, width, argument) in enumerate(zip(self.parameters, self.widths, arguments))]
        names = ", ".join(f"raw_in{number}" for number in range(len(arguments)))
        if self.result_bytes:
            lines.append(f".param .align 8 .b8 raw_out[{self.result_bytes}];")
        elif self.returns:
            lines.append(f".param .b{self.returns} raw_out;")
        given = "(raw_out), " if self.returns or self.result_bytes else ""
        lines.append(f"call.uni {given}{self.symbol}, ({names});")
        if self.returns:
            lines.append(f"ld.param.b{self.returns} {result}, [raw_out];")
        lines += [f"ld.param.b64 raw_piece{offset}, [raw_out+{offset}];" for offset in self.pieces]
        return "{ " + " ".join(lines) + " }"


def unit_of(module: Module, function: Function, key: str) -> Unit:
    """The function and all that it needs of its text."""
    names = {name: f"raw_{key}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}" for name in module.names()}
    body = None if any(parameter.bytes for parameter in function.parameters) else _straight(function, names, key)
    tops = [f"{head};" for head in (f".extern {one.head}" for name, one in module.declared.items() if name not in module.functions)]
    texts = [one.body for one in module.functions.values()] + list(module.variables.values())
    mentioned = [word for text in texts for word in _WORD.findall(text)]
    tops += [_renamed(text, names) for name, text in module.variables.items() if mentioned.count(name) > 1]
    kept = [one for one in module.functions.values() if one is not function or body is None]
    if len(kept) > 1:   # a declaration of each, since one may call another that stands behind it
        tops += [f"{_renamed(one.head, names)};" for one in kept]
    tops += [f"{_renamed(one.head, names)}\n{{{_renamed(_LOC.sub('', one.body), names)}}}" for one in kept]
    result = function.result
    wide = [found[0] for text in (body or "", *(one.body for one in kept)) for found in _CTA_WIDE.finditer(text)]
    named = {int(found[1]) for text in (body or "", *(one.body for one in kept)) for found in _NAMED.finditer(text)}
    return Unit(names[function.name], function.parameters, 0 if result is None or result.bytes else result.bits,
                0 if result is None else result.bytes, "\n".join(tops), body, tuple(" ".join(one.split()) for one in wide),
                tuple(sorted(named)), "barrier.cluster" in f"{body}{''.join(tops)}")


def _renamed(text: str, names: dict[str, str]) -> str:
    return _WORD.sub(lambda found: names.get(found[0], found[0]), text)


def _straight(function: Function, names: dict[str, str], key: str) -> str | None:
    """The body as one block of instructions, with marks for arguments and results; None if a parameter is read in another way."""
    text = _LOC.sub("", function.body)
    places = {parameter.name: number for number, parameter in enumerate(function.parameters)}
    result = function.result.name if function.result is not None else None

    def read(found) -> str:
        if found[3] not in places or found[4] not in (None, "0"):
            return found[0]
        width = function.parameters[places[found[3]]].bits
        if int(re.search(r"\d+", found[1])[0]) != width or width not in (16, 32, 64):
            return found[0]
        return f"mov.b{width} {found[2]}, \x01{places[found[3]]}\x02;"

    def write(found) -> str:
        if found[2] != result:
            return found[0]
        bits = int(re.search(r"\d+", found[1])[0])
        if function.result.bytes and bits == 64:
            return f"mov.b64 \x01piece{found[3] or 0}\x02, {found[4]};"
        fits = not function.result.bytes and bits == function.result.bits
        return f"mov.b{bits} \x01result\x02, {found[4]};" if fits else found[0]

    text = _WRITE.sub(write, _READ.sub(read, text))
    if any(name in set(_WORD.findall(text)) for name in (*places, *([result] if result else []))):
        return None
    text = re.sub(r"%n?tid\.x\b", lambda found: _THREAD[found[0]], _SYNC.sub("\x01sync\x02;", text))
    labels = {label: f"raw_{key}_{re.sub(r'[^A-Za-z0-9_]', '_', label)}" for label in _LABEL.findall(text)}
    end = f"raw_{key}_end"
    text = _RETURN.sub(f"bra {end};", _renamed(text, {**names, **labels}))
    if text.rstrip().endswith(f"bra {end};"):
        text = text.rstrip()[:-len(f"bra {end};")]
        jumps = f"bra {end};" in text
    else:
        jumps = True
    return " ".join(f"{{ {text} {f'{end}:' if jumps else ''} }}".split())


def chosen(module: Module, wanted: str, name: str) -> Function:
    """The function to call: `wanted` if given, else the one called `name`, also as C++ mangles it, else the only one."""
    for symbol in filter(None, (wanted, name)):
        found = [one for one in module.functions.values()
                 if one.name == symbol or re.match(rf"_Z(?:N\w*?)?L?{len(symbol)}{re.escape(symbol)}(?![0-9])", one.name)]
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            raise PtxError(f"{len(found)} functions are called {symbol}", found[1].line, "name one by extern_func_name=")
        if symbol == wanted:
            break
    if not wanted and len(module.functions) == 1:
        return next(iter(module.functions.values()))
    have = ", ".join(module.functions) or "none"
    raise PtxError(f"no function is called {wanted or name}; the source defines {have}", 1, "name it by extern_func_name=")
