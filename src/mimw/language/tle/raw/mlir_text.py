"""Functions in MLIR text: their body becomes a part of the kernel.

Input: the decorated function, of which the parameters name those of the text's function, and the decorator's options. Output: a
`RawFunction` whose call records a `raw_mlir`. For example, with `twice(%x: tensor<128xf32>) -> tensor<128xf32>`:

    y = tle.raw.call(twice, [x])                    %y = raw_mlir 'twice' [%x] [fp32[128]]

What a call hands over must have the types of the text's signature. Layouts are the compiler's where the text has none.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import replace
from typing import Any, NoReturn

import triton.language.core as tl

from ....errors import RawCodeError
from ....ir import Barrier, Buffer, Pointer, Scalar, Site, Tensor, Type
from ....ir.mlir_text import MlirError, MlirFunction, MlirText
from ....ir.mlir_types import quiet, spelled
from ....ir.raw_code import READS, WRITES, RawCode, keep
from ...refuse import current, refuse
from ...tlx import types as tlx
from ...tlx.layouts import row_major
from .native import NativeFunction

_NUMBERS = {"i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "fp16": tl.float16,
            "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64, "fp8e5": tl.float8e5, "fp8e4nv": tl.float8e4nv,
            "fp8e4b8": tl.float8e4b8, "fp8e5b16": tl.float8e5b16}
_OF_A_THREAD = re.compile(r"\bllvm\.func\b")
_GLOBAL = ("global", "constant")
_EFFECTS = {frozenset(): "", frozenset(("read", )): "in", frozenset(("write", )): "out", frozenset(("read", "write")): "inout"}


def mlir_function(fn, dialect: str, options: dict[str, Any]) -> NativeFunction:
    """The function that a text in MLIR declares: one on tiles, whose body becomes a part of the kernel, or (`llvm.func`) one
    that each thread runs, as of any native code."""
    function = NativeFunction(fn, dialect, options)
    if not function.deferred and _OF_A_THREAD.search(quiet(function.code().text)):
        return function
    return MlirFunctionText(fn, dialect, options)


class MlirFunctionText(NativeFunction):
    """A function in MLIR text."""

    def __init__(self, fn, dialect: str, options: dict[str, Any]):
        super().__init__(fn, dialect, options)
        for option, instead in (("fence", "its ops are ordered as the kernel's are"), ("flags", "no compiler of its own takes it")):
            if option in options:
                raise ValueError(f"tle.raw.dialect(name='mlir') of {self.name}: {option}= says nothing of a function on tiles: "
                                 f"{instead}")
        if not self.deferred:
            self._read()

    def record_call(self, args, output_indices, hint, in_place, semantic, generator):
        if output_indices:
            refuse(ValueError, f"tle.raw.call: {self.name} is MLIR text, whose results are what the function returns",
                   mend="leave output_indices away")
        text, function = self._read()
        builder, code = semantic.builder, self.code()
        handles = self._handles(function, args, in_place, semantic)
        try:
            uses, pure = builder.read_mlir(text, function)
        except MlirError as error:
            raise self._complaint(error) from None
        effects = tuple(self._effect(place, _EFFECTS[frozenset(used)], function) for place, used in enumerate(uses))
        for handle, effect in zip(handles, effects):
            if effect in READS:
                builder.record("mlir_reads" if isinstance(handle.type, Buffer) else "mlir_loads", handle)
        made = builder.record("pure_mlir" if pure else "raw_mlir", hint or self.name, tuple(handles), function.results,
                              code=keep(code), effects=effects)
        for handle, effect in zip(handles, effects):
            if effect in WRITES:
                builder.record("mlir_writes" if isinstance(handle.type, Buffer) else "mlir_stores", handle)
        found = [tl.tensor(handle, _triton_type(handle.type)) for handle in made.results]
        return None if not found else found[0] if len(found) == 1 else tuple(found)

    def _read(self) -> tuple[MlirText, MlirFunction]:
        """The text and the function that is called."""
        try:
            text = MlirText(self.code().text)
            function = text.called(self.options.get("extern_func_name", ""), self.name)
            self._check_border(function)
        except MlirError as error:
            raise self._complaint(error) from None
        return text, function

    def _check_border(self, function: MlirFunction) -> None:
        """Refuse a signature that a function that is called may not have."""
        for parameter in function.parameters:
            if isinstance(parameter.type, Barrier):
                raise MlirError(f"%{parameter.name} is an mbarrier; wait and arrive in the kernel, before and behind the call",
                                function.line)
            if isinstance(parameter.type, Buffer) and parameter.written.replace(" ", "") != spelled(parameter.type):
                raise MlirError(f"%{parameter.name} has a layout, but the compiler chooses the layouts of buffers: write "
                                f"{spelled(parameter.type)}", function.line)
        for result in function.results:
            if isinstance(result, (Buffer, Barrier)):
                raise MlirError(f"a result is {spelled(result)}; numbers, pointers and tiles can be, so store what is in it in "
                                "a buffer of the kernel", function.line)
        declared = self.parameters
        if declared and len(declared) != len(function.parameters):
            raise MlirError(f"the declaration {self.name} has {len(declared)} parameters, and the function {function.signature} "
                            f"{len(function.parameters)}", function.line)
        for parameter, (name, one) in zip(function.parameters, declared.items()):
            effect = self.options.get("effects", {}).get(name) or (one.effect if one is not None else "in")
            if effect in WRITES and not isinstance(_element(parameter.type), Pointer) and not isinstance(parameter.type, Buffer):
                raise MlirError(f"{name} is declared {effect!r}, and %{parameter.name} is {spelled(parameter.type)}, a value, "
                                "which no function changes: return the new value", function.line)

    def _handles(self, function: MlirFunction, args: list, in_place: bool, semantic) -> list:
        """The handle of each argument, of its parameter's type."""
        if len(args) != len(function.parameters):
            self._refuse(f"takes {len(function.parameters)} arguments, got {len(args)}", function)
        return [self._handle(parameter.name, parameter.type, arg, in_place, function, semantic)
                for parameter, arg in zip(function.parameters, args)]

    def _handle(self, name: str, wanted: Type, arg, in_place: bool, function: MlirFunction, semantic):
        if isinstance(arg, tlx.buffered_tensor):
            self._check_buffer(name, arg, function)
            handle = arg.handle
        elif isinstance(arg, tl.tensor):
            if in_place and arg.type.is_block():
                self._refuse(f"is given a tile for %{name}; call_smem takes buffers: give it one, or use tle.raw.call", function)
            if isinstance(wanted, Scalar) and _widens(arg.handle.type, wanted):
                arg = semantic.cast(arg, _NUMBERS[wanted.name])
            handle = arg.handle
        elif isinstance(wanted, Scalar) and isinstance(arg, (bool, int, float) if wanted.is_float else (bool, int)):
            return semantic.builder.constant(float(arg) if wanted.is_float else int(arg), wanted)
        else:
            self._refuse(f"is given {arg} for %{name}", function)
        if not _fits(handle.type, wanted):
            shared = isinstance(handle.type, Pointer) and handle.type.space not in _GLOBAL
            self._refuse(f"is given {handle.type if shared else spelled(handle.type)} for %{name}: {spelled(wanted)}", function,
                         "give it the buffer itself" if shared else "")
        return handle

    def _check_buffer(self, name: str, arg, function: MlirFunction) -> None:
        if arg.type.storage is not tlx.storage_kind.smem or arg.type.num or arg.type.order != row_major(len(arg.shape)):
            self._refuse(f"is given {arg} for %{name}; a buffer must be a single one in shared memory, not transposed", function)

    def _effect(self, place: int, used: str, function: MlirFunction) -> str:
        """The effect of the function on the memory of a parameter: the declared one, which must include the accesses of the
        text."""
        names = list(self.parameters)
        if not names:
            return used
        annotation = self.parameters[names[place]]
        declared = self.options.get("effects", {}).get(names[place]) or (annotation.effect if annotation is not None else None)
        if declared is None or not used:
            return used
        if used in WRITES and declared not in WRITES or used in READS and declared not in READS:
            what = "writes" if used in WRITES and declared not in WRITES else "reads"
            self._refuse(f"declares {names[place]} {declared!r}, and its text {what} that memory", function,
                         f"declare it {used if used == 'inout' else 'inout' if declared != used else used}")
        return declared

    def code(self) -> RawCode:
        """The source as it is now. A text that stands in no file as it is gets a name, under which errors show its lines."""
        code = super().code()
        if self.path is not None:
            return code
        whole = "".join(linecache.getlines(code.file))
        if (place := whole.find(self._text)) >= 0:
            return replace(code, line=whole.count("\n", 0, place) + 1)
        name = f"<MLIR text of {self.name}>"
        linecache.cache[name] = len(code.text), None, code.text.splitlines(keepends=True), name
        return replace(code, file=name, line=1)

    def _complaint(self, error: MlirError) -> RawCodeError:
        """An error at a line of the author's text."""
        code, recording = self.code(), current()
        call = None if recording is None else recording.site
        site = Site(code.file, code.line + error.line - 1, error.column - 1, self.name, call)
        return RawCodeError(f"the MLIR text of {self.name} cannot be taken: {error.what}.", site)

    def _refuse(self, message: str, function: MlirFunction, mend: str = "") -> NoReturn:
        refuse(ValueError, f"tle.raw.call: {self.name} {message}; its function in MLIR is {function.signature}", mend)


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, Tensor) else type_


def _fits(have: Type, wanted: Type) -> bool:
    """True of the same type; a pointer may be to constants."""
    pointers = isinstance(have, Pointer) and isinstance(wanted, Pointer)
    return have.space in _GLOBAL and have.pointee == wanted.pointee if pointers else have == wanted


def _widens(have: Type, wanted: Scalar) -> bool:
    """True if an integer becomes the wider one without loss."""
    return isinstance(have, Scalar) and not have.is_float and not wanted.is_float and 1 < have.bits < wanted.bits


def _triton_type(type_: Type):
    if isinstance(type_, Tensor):
        return tl.block_type(_triton_type(type_.element), list(type_.shape))
    return tl.pointer_type(_triton_type(type_.pointee)) if isinstance(type_, Pointer) else _NUMBERS[type_.name]
