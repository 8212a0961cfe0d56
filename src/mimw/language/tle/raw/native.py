"""Functions whose source is text that a compiler of its own takes: CUDA C++, PTX, LLVM IR.

Input: the decorated function, the dialect and the decorator's options. Output: a `RawFunction` whose call records a `raw_call`. For
example, tle.raw.call(scale, [tile, 2.0]) of a tile of 128 fp32:

    %t = local_alloc buffer<fp32[128]>; local_store %t, %tile; %at = raw_address %t
    raw_reads %t; raw_call 'scale' [%at, %0] forms=['inout memref fp32 128 1', '- value fp32 - -']; raw_writes %t
    local_load %t
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from ....ir.raw_code import EFFECTS, RawCode, keep
from .function import RawFunction
from .includes import included_files
from .operands import Operands

FENCES = ("async_shared", "gpu", "sys")
_OPTIONS = frozenset(("file", "source", "extern_func_name", "deferred", "reference", "effects", "fence", "flags"))


class NativeFunction(RawFunction):
    """Native code whose source is text."""

    def __init__(self, fn, dialect: str, options: dict[str, Any]):
        super().__init__(fn, dialect)
        self.options = _checked(self, options)
        self.path = self._path()
        self._text = None if self.path else options["source"]
        if not self.deferred:
            self.code()

    @property
    def deferred(self) -> bool:
        return bool(self.options.get("deferred"))

    @property
    def reference(self):
        """The function that the simulator runs instead, or None."""
        return self.options.get("reference")

    @property
    def fence(self) -> str | None:
        """The fence that the code ends in."""
        return self.options.get("fence")

    @property
    def cache_key(self) -> str:
        code = self.code()
        declared = [(name, one.effect, str(one.what)) for name, one in self.parameters.items() if one is not None]
        return repr((code.content, declared, self.options.get("effects"), self.fence))

    def code(self) -> RawCode:
        """The source as it is now."""
        symbol, flags = self.options.get("extern_func_name", ""), tuple(self.options.get("flags", ()))
        if self.path is None:
            file, line = inspect.getsourcefile(self.fn) or "", _line_of(self.fn, self._text)
            return self._code(self._text, file, line, symbol, flags)
        try:
            text = self.path.read_text()
        except OSError as error:
            if self.deferred:       # it may be there when a kernel is compiled; the simulator does without
                return RawCode(self.name, self.dialect, "", str(self.path), 1, symbol, flags, (), self.reference)
            raise FileNotFoundError(f"tle.raw.dialect: the source of {self.name} cannot be read: {self.path}: {error.strerror}") \
                from None
        return self._code(text, str(self.path), 1, symbol, flags)

    def _code(self, text: str, file: str, line: int, symbol: str, flags: tuple[str, ...]) -> RawCode:
        included = included_files(text, Path(file).parent, flags) if self.dialect == "cuda" else ()
        return RawCode(self.name, self.dialect, text, file, line, symbol, flags, included, self.reference)

    def record_call(self, args, output_indices, hint, in_place, semantic, generator):
        operands = Operands(self, args, in_place, semantic, output_indices)
        results = operands.wanted(output_indices)
        code = keep(self.code())
        operands.before()
        forms, names = tuple(form.text for form in operands.forms), tuple(operands.names)
        made = semantic.builder.record("raw_call", hint or self.name, tuple(operands.handles), operands.result_types, code=code,
                                       forms=forms, names=names, fence=self.fence,
                                       sync_scope=getattr(self.hardware, "sync_scope", None))
        operands.after()
        found = [*operands.scalars(made.results), *map(operands.value_after, results)]
        return None if not found else found[0] if len(found) == 1 else tuple(found)

    def _path(self) -> Path | None:
        file = self.options.get("file")
        if file is None:
            return None
        path = Path(file).expanduser()
        beside = Path(inspect.getsourcefile(self.fn) or "").parent / path
        return path if path.is_absolute() or not beside.is_file() else beside


def _line_of(fn, text: str) -> int:
    """The line of the decorated function's file where the source begins, if it stands in that file as it is; else that of the
    declaration."""
    try:
        whole = Path(inspect.getsourcefile(fn)).read_text()
    except (OSError, TypeError):
        whole = ""
    place = whole.find(text)
    return fn.__code__.co_firstlineno if place < 0 else whole.count("\n", 0, place) + 1


def _checked(function: RawFunction, options: dict[str, Any]) -> dict[str, Any]:
    where = f"tle.raw.dialect(name={function.dialect!r}) of {function.name}"
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise ValueError(f"{where}: no option is named {unknown[0]!r}; there are {', '.join(sorted(_OPTIONS))}")
    if ("file" in options) == ("source" in options):
        raise ValueError(f"{where}: give the source, by file= or by source=, and not both")
    for parameter, effect in options.get("effects", {}).items():
        arrives = re.fullmatch(r"arrive( [1-9]\d*)?", str(effect))
        if parameter not in inspect.signature(function.fn).parameters or effect not in EFFECTS and not arrives:
            raise ValueError(f"{where}: effects={{{parameter!r}: {effect!r}}}; the parameters are "
                             f"{', '.join(inspect.signature(function.fn).parameters)}, an effect is in, out or inout; of an "
                             "mbarrier it is arrive, or arrive and how many times")
    if options.get("fence") not in (None, *FENCES):
        raise ValueError(f"{where}: fence must be one of {', '.join(FENCES)}, got {options['fence']!r}")
    if options.get("deferred") and function.dialect == "cuda" and not options.get("extern_func_name"):
        raise ValueError(f"{where}: with deferred=True, extern_func_name= must name the function, since its source is not read yet")
    return options
