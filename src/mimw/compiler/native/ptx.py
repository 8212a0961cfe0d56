"""A PTX text taken apart: its functions and what else stands at its outermost level.

Input: the text of a module, with or without `.version` and `.target`. Output: `Module`. For example, of a file with one function:

    module = parse(".func scale(.param .b64 x, .param .b32 f) { .. ret; }")
    module.functions["scale"].parameters       (Param("x", 64), Param("f", 32))

Native code may bring functions and constant tables. What would change the kernel around it is refused, with the line: kernels,
shared memory of its own, directives about launches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IGNORED = (".version", ".target", ".address_size", ".file", ".pragma", ".section", ".alias")
_LINKAGE = re.compile(r"\s*(?:\.(?:visible|weak|common|extern)\b\s*)*")
_FUNCTION = re.compile(r"\.func\s*(?:\((?P<result>[^)]*)\)\s*)?(?P<name>[\w$%]+)\s*(?:\((?P<parameters>[^)]*)\))?"
                       r"(?P<notes>(?:\s*\.\w+)*)\s*$", re.DOTALL)
_VARIABLE = re.compile(r"\.(?P<space>global|const|shared|local|tex\w*|surfref|samplerref)\b(?P<rest>.*)$", re.DOTALL)
_VARIABLE_NAME = re.compile(r"\.[bsuf]\d+\s+([\w$%]+)|\.pred\s+([\w$%]+)")
_PARAM = re.compile(r"\.(?:param|reg)\s+(?:\.align\s+\d+\s+)?\.([bsuf]\d+|f16x2|bf16|pred)\s*"
                    r"(?:\.ptr\b(?:\s*\.(?:\w+)(?:\s+\d+)?)*?)?\s+([\w$%]+)\s*(\[\s*(\d+)\s*\])?\s*$")
# What ends or changes the kernel around a function.
_OTHERS_MEND = {"exit": "return instead (ret): the kernel goes on behind the call", "brkpt": "leave it out",
                "setmaxnreg": "ask for registers where the task is made: tlx.async_task(registers=..)"}
_OTHERS = re.compile(rf"(?:^|[;{{}}\s])({'|'.join(_OTHERS_MEND)})(?=[.;\s])")
_OWN_SHARED = re.compile(r"(?:^|(?<=[\s;{}]))\.shared\s+(?:\.align\s+\d+\s+)?\.[bsuf]\d+\s+[\w$%]")
_SHARED_MEND = "shared memory is the kernel's: allocate it there, by tle.gpu.alloc, and pass the buffer"
BUILTINS = frozenset(("vprintf", "__assertfail", "malloc", "free"))     # what the CUDA runtime defines for every kernel


class PtxError(ValueError):
    """A text that native code must not be. `line` counts from 1 in the text."""

    def __init__(self, message: str, line: int, mend: str = ""):
        self.message, self.line, self.mend = message, line, mend
        super().__init__(f"line {line}: {message}")


@dataclass(frozen=True)
class Param:
    """A parameter or result: its bits, and how many bytes if it is an array of them, which structures are."""

    name: str
    bits: int
    bytes: int = 0


@dataclass(frozen=True)
class Function:
    """A function: `head` and `body` are its text, the body without its braces; a declaration has the body None."""

    name: str
    parameters: tuple[Param, ...]
    result: Param | None
    head: str
    body: str | None
    line: int


@dataclass
class Module:
    """The definitions and declarations of a text. `variables` and `functions` are in the order of the text."""

    functions: dict[str, Function] = field(default_factory=dict)
    declared: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def names(self) -> set[str]:
        """Names that the text gives at its outermost level."""
        return {*self.functions, *self.variables}


def without_comments(text: str) -> str:
    """The text with blanks for comments; lines stay where they are."""
    return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def parse(text: str) -> Module:
    """The parts of a text. PtxError for instructions that native code must not hold, or a text that is no PTX."""
    text, at, module = without_comments(text), 0, Module()
    while at < len(text):
        start = at + len(text[at:]) - len(text[at:].lstrip())
        if start == len(text):
            break
        line = 1 + text.count("\n", 0, start)
        at = _section(text, start) if text.startswith(".section", start) else _statement(module, text, start, line)
    _check_calls(module, text)
    return module


def _section(text: str, start: int) -> int:
    """Debug information, which is left out: the place behind it."""
    opened = text.find("{", start)
    return _closing(text, opened) + 1 if opened >= 0 else len(text)


def _statement(module: Module, text: str, start: int, line: int) -> int:
    """Note one statement; gives the place behind it."""
    directive = re.match(r"\.?[\w$%]+", text[start:])
    word = directive[0] if directive else text[start]
    if word in _IGNORED:
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    linked = _LINKAGE.match(text, start).end()
    if text.startswith(".entry", linked):
        raise PtxError("a kernel (.entry) in native code", line, "write it as .func: the kernel is the one that calls it")
    stop = re.compile(r"[;{]").search(text, linked)
    if stop is None:
        raise PtxError(f"{text[start:start + 40].strip()!r} is not ended by a semicolon", line)
    if text.startswith(".func", linked):
        return _function(module, text, start, linked, stop.start(), line)
    variable = _VARIABLE.match(text[linked:stop.start()])
    if variable is None:
        raise PtxError(f"{text[start:stop.start()].strip()[:60]!r} outermost: native code has functions, and variables "
                       "in .const or .global", line)
    end = text.find(";", _closing(text, stop.start())) if text[stop.start()] == "{" else stop.start()
    if variable["space"] not in ("global", "const"):
        raise PtxError(f"a variable in .{variable['space']}", line, _SHARED_MEND)
    named = _VARIABLE_NAME.search(variable["rest"])
    if named is None or end < 0:
        raise PtxError(f"{text[start:stop.start()].strip()[:60]!r} is no variable", line)
    module.variables[named[1] or named[2]] = text[linked:end + 1].strip()
    return end + 1


def _function(module: Module, text: str, start: int, linked: int, stop: int, line: int) -> int:
    head = text[linked:stop].strip()
    match = _FUNCTION.match(head)
    if match is None:
        raise PtxError(f"{' '.join(head.split())[:60]!r} is no function", line)
    parameters = tuple(_param(one, line) for one in (match["parameters"] or "").split(",") if one.strip())
    result = _param(match["result"], line) if (match["result"] or "").strip() else None
    name, body, end = match["name"], None, stop + 1
    if text[stop] == "{":
        closing = _closing(text, stop)
        body, end = text[stop + 1:closing], closing + 1
        if closing >= len(text):
            raise PtxError(f"the body of {name} is not closed", line)
        if name in module.functions:
            raise PtxError(f"a second function {name}", line)
        module.functions[name] = Function(name, parameters, result, head, body, line)
    else:
        module.declared[name] = Function(name, parameters, result, head, None, line)
    return end


def _param(text: str, line: int) -> Param:
    match = _PARAM.match(" ".join(text.split()))
    if match is None:
        raise PtxError(f"{' '.join(text.split())!r} is no parameter", line)
    bits = int(re.search(r"\d+", match[1])[0]) if re.search(r"\d", match[1]) else 1
    return Param(match[2], bits, bits // 8 * int(match[4]) if match[3] else 0)


def _closing(text: str, opened: int) -> int:
    """The place of the brace that closes the one at `opened`; the end of the text if there is none."""
    depth = 0
    for found in re.finditer(r"[{}]", text[opened:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return opened + found.start()
    return len(text)


def _check_calls(module: Module, text: str) -> None:
    """Refuse a function that is declared and nowhere defined, since nothing could be linked in; and what is about more than the
    function."""
    if match := _OWN_SHARED.search(text):
        raise PtxError("a variable in .shared", 1 + text.count("\n", 0, match.start()), _SHARED_MEND)
    if match := _OTHERS.search(text):
        line = 1 + text.count("\n", 0, match.end() - len(match[1]))
        raise PtxError(f"`{match[1]}` in native code", line, _OTHERS_MEND[match[1]])
    for name, function in module.declared.items():
        if name not in module.functions and name not in BUILTINS:
            raise PtxError(f"{name} is declared and not defined", function.line,
                           "define it in the same source; of the CUDA runtime there are " + ", ".join(sorted(BUILTINS)))
