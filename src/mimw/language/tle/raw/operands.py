"""The operands of a call of native code: checked against the declaration, and put where the code can reach them.

Input: a function, the arguments of its call, the semantic. Output: the ops before and behind the call, and its operands:

    operands = Operands(scale, [tile, 2.0], False, semantic)
    operands.before()       local_alloc, local_store, raw_address, raw_reads
    operands.after()        raw_writes
    operands.value_after(0) the tile, read again
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ....ir import Pointer
from ....ir.raw_code import Form
from ...numbers import is_int
from ...refuse import refuse
from ...tlx import types as tlx
from ...tlx.layouts import row_major
from ..gpu.memory import alloc
from ..gpu.pointers import local_ptr
from ..gpu.types import buffered_tensor as padded_tensor
from .annotations import UNKNOWN_EXTENT, Declaration, type_of

_NAMES = {"i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "fp16": tl.float16,
          "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64}


class Operands:
    """The operands of one call. `forms` and `handles` are those of its `raw_call`, once `before` has run."""

    def __init__(self, function, args: list, in_place: bool, semantic, outputs: tuple[int, ...] | None = None):
        self.function, self.semantic, self.builder = function, semantic, semantic.builder
        self.outputs, self.given = outputs, args
        self.parameters = function.parameters
        if function.takes_any:      # a stub without parameters of its own: def f(*args): ...
            self.parameters = {f"argument {number}": None for number in range(len(args))}
        self.names = list(self.parameters)
        if len(args) != len(self.names):
            self._refuse(f"takes {len(self.names)} arguments ({', '.join(self.names)}), got {len(args)}")
        self.forms: list[Form] = []
        self.memory: list[Any] = []     # what each argument lies in: a buffer, a pointer, or None
        self.handles: list[Any] = []
        for name, arg in zip(self.names, args):
            self._look(name, arg, in_place)
        self.result = function.result
        if self.result is not None and self.result.kind not in ("value", "memref"):
            self._refuse(f"returns {self.result.text}; a result is a number, and what is written comes back by InOut parameters")

    def wanted(self, outputs: tuple[int, ...] | None) -> list[int]:
        """The indices of the arguments whose new values the call gives."""
        if outputs is None:
            if self.function.options.get("deferred"):
                self._refuse("is deferred: the call needs output_indices=[..], the positions of the arguments whose new values "
                             "come back ([] for none)")
            return [index for index, form in enumerate(self.forms) if form.kind == "memref" and form.writes]
        for index in outputs:
            if self.forms[index].kind != "memref" or not self.forms[index].writes:
                self._refuse(f"output_indices names {self.names[index]!r}, which is {self.forms[index].text!r}: only a tile or "
                             "buffer that is declared InOut or Output has a new value")
        return list(outputs)

    @property
    def result_types(self) -> tuple:
        """The IR types of the call's results."""
        return () if self.result is None or self.result.kind != "value" else (_NAMES[self.result.element].to_ir(self.builder), )

    def before(self) -> None:
        """Put tiles into shared memory and declare the memory that is read."""
        for index, (arg, form) in enumerate(zip(self.given, self.forms)):
            if form.kind == "memref" and isinstance(arg, tl.tensor):
                self.memory[index] = alloc(list(form.shape), arg.dtype, _semantic=self.semantic)
                if form.reads:
                    tl.store(local_ptr(self.memory[index], _semantic=self.semantic), arg, _semantic=self.semantic)
            self.handles.append(self._handle(index, form))
        for place, form in zip(self.memory, self.forms):
            if form.reads:
                self.builder.record("raw_reads" if form.kind == "memref" else "raw_loads", place.handle)

    def after(self) -> None:
        """Declare the memory that has been written."""
        for place, form in zip(self.memory, self.forms):
            if form.writes:
                self.builder.record("raw_writes" if form.kind == "memref" else "raw_stores", place.handle)
        for place, form in zip(self.memory, self.forms):
            if form.arrivals:
                self.builder.record("raw_arrives", place.handle, form.arrivals, None)

    def scalars(self, results: list) -> list:
        """The declared result of the call as a value of the kernel."""
        return [tl.tensor(results[0], _NAMES[self.result.element])] if results else []

    def value_after(self, index: int):
        """The new value of an argument: a tile is read again, a buffer is itself."""
        if isinstance(self.given[index], tl.tensor):
            return tl.load(local_ptr(self.memory[index], _semantic=self.semantic), _semantic=self.semantic)
        return self.given[index]

    def _look(self, name: str, arg, in_place: bool) -> None:
        declared = self.parameters[name]
        type_ = None if declared is None else type_of(declared)
        self.memory.append(None)
        if isinstance(arg, tlx.mbarrier):
            form = self._barrier(name, arg)
        elif isinstance(arg, tlx.buffered_tensor):
            form = self._buffer(name, arg)
            self.memory[-1] = arg
        elif isinstance(arg, tl.tensor) and arg.type.is_block():
            if in_place or arg.dtype.is_ptr():
                self._refuse(f"`{name}` is a tile of {arg.dtype}; "
                             + ("call_smem takes buffers: give it one, or use tle.raw.call" if in_place else
                                "native code takes one pointer, and counts from it"))
            shape = tuple(int(extent) for extent in arg.type.shape)
            form = Form(self._effect(name, "memref"), "memref", self._element(arg.dtype), shape, _strides(shape))
        elif isinstance(arg, tl.tensor) and arg.dtype.is_ptr():
            form = self._pointer(name, arg)
            self.memory[-1] = arg
        elif isinstance(arg, (tl.tensor, int, float)):
            form = Form("", "value", self._number(name, arg, type_))
        else:
            self._refuse(f"`{name}` must be a tile, a buffer in shared memory, a pointer, an mbarrier or a number, got {arg}")
        if type_ is not None:
            self._compare(name, form, type_)
        self.forms.append(form)

    def _effect(self, name: str, kind: str) -> str:
        given = self.function.options.get("effects", {}).get(name)
        declared = self.parameters[name]
        if given or declared is not None:
            return given or declared.effect
        return "in" if kind == "memref" and self.outputs is not None and self.names.index(name) not in self.outputs else "inout"

    def _barrier(self, name: str, arg) -> Form:
        if arg.num > 1:
            self._refuse(f"`{name}` must be one mbarrier, and this is an array of {arg.num}; index it")
        effect = self.function.options.get("effects", {}).get(name, "")
        if effect and not effect.startswith("arrive"):
            self._refuse(f"`{name}` is an mbarrier, and is declared {effect!r}; of an mbarrier it can be 'arrive', or 'arrive 4'")
        self.memory[-1] = arg
        return Form(effect.replace("arrive ", "arrive") if " " in effect else f"{effect}1" if effect else "", "barrier")

    def _buffer(self, name: str, arg) -> Form:
        if arg.type.storage is not tlx.storage_kind.smem:
            self._refuse(f"`{name}` must be in shared memory, it is in {arg.type.storage.value}")
        if arg.type.num:
            self._refuse(f"`{name}` must be one buffer, and this is an array of {arg.type.num}; index it")
        if arg.type.order != row_major(len(arg.shape)):
            self._refuse(f"`{name}` is transposed; give native code the buffer itself")
        stored = arg.type.stored if isinstance(arg, padded_tensor) else arg.shape
        shape = tuple(arg.shape)
        return Form(self._effect(name, "memref"), "memref", self._element(arg.dtype), shape, _strides(stored)[-len(shape):])

    def _pointer(self, name: str, arg) -> Form:
        type_ = arg.dtype.to_ir(self.builder)
        if not isinstance(type_, Pointer) or type_.space not in ("global", "constant") or str(arg.dtype.name).startswith("shared"):
            self._refuse(f"`{name}` points into shared memory; give native code the buffer, and an index if need be")
        return Form(self._effect(name, "pointer"), "pointer", str(type_.pointee))

    def _number(self, name: str, arg, type_: Declaration | None) -> str:
        if isinstance(arg, tl.tensor):
            return type_.element if type_ is not None and _widens(arg, type_) else self._element(arg.dtype)
        if type_ is not None and type_.kind == "value":
            return type_.element
        return "i1" if isinstance(arg, bool) else "i32" if is_int(arg) and abs(arg) < 1 << 31 else "i64" if is_int(arg) else "fp32"

    def _element(self, dtype) -> str:
        return str((tl.int8 if dtype == tl.int1 else dtype).to_ir(self.builder))

    def _compare(self, name: str, form: Form, type_: Declaration) -> None:
        kind = "memref" if type_.kind == "tensor" else "memref" if type_.kind == "pointer" and type_.space == 3 else type_.kind
        if kind == "memref" and type_.kind != "pointer" and form.kind == "memref" and type_.space not in (0, 3):
            self._refuse(f"`{name}` is declared {type_.text}, and lies in shared memory: address space 3")
        bare = type_.kind == "pointer"
        fits = kind == form.kind and (bare or form.element == type_.element) and (
            kind != "memref" or bare or len(form.shape) == len(type_.shape) and all(
                declared in (UNKNOWN_EXTENT, extent) for declared, extent in zip(type_.shape, form.shape)))
        if not fits:
            shape = f" of the shape {list(form.shape)}" if form.kind == "memref" else ""
            self._refuse(f"`{name}` is declared {type_.text}, and is given a {form.kind} of {form.element or 'no type'}{shape}")

    def _handle(self, index: int, form: Form):
        arg = self.given[index]
        if form.kind == "memref":
            return self.builder.record("raw_address", self.memory[index].handle).results[0]
        if form.kind == "barrier":
            return self.builder.record("raw_barrier", arg.handle).results[0]
        if form.kind == "pointer":
            return arg.handle
        if isinstance(arg, tl.tensor):
            return self.semantic.cast(arg, _NAMES[form.element]).handle
        type_ = _NAMES.get(form.element)
        if type_ is None or type_.is_int() and not isinstance(arg, (bool, int)):
            self._refuse(f"`{self.names[index]}` is declared {form.element}, and is given {arg!r}")
        return self.builder.constant(float(arg) if type_.is_floating() else int(arg), type_.to_ir(self.builder))

    def _refuse(self, message: str):
        refuse(ValueError, f"tle.raw.call: {self.function.name} {message}")


def _widens(arg: tl.tensor, type_: Declaration) -> bool:
    """True if an integer scalar becomes the declared, wider one without loss."""
    return arg.dtype.is_int() and type_.kind == "value" and type_.element in ("i32", "i64") and \
        arg.dtype.primitive_bitwidth <= _NAMES[type_.element].primitive_bitwidth


def _strides(shape) -> tuple[int, ...]:
    """The strides of a row-major array."""
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step)
        step *= extent
    return tuple(reversed(found))
