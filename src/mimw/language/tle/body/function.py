"""A raw function with a Python body: the ops that a call of it records, and its key.

Input: the decorated function, and the arguments of a call. Output: the ops of the body, between two barriers of the threads. For
example,
tle.raw.call(double, [tile]) with a tile of 128 fp32 and 4 warps:

    %x = local_alloc buffer<fp32[128]>; store of %tile; barrier; %lane = make_range 0 128; ..; barrier; load of all

A tile lies in shared memory for as long as the body runs; a buffer is the memory itself.
"""

from __future__ import annotations

import hashlib
import re
from math import prod
from types import FunctionType, ModuleType
from typing import Any

import triton.language.core as tl

from ...refuse import refuse
from ..gpu.memory import alloc
from ..gpu.pointers import local_ptr
from ..raw.function import RawFunction
from ..raw.operands import Operands
from .threads import Threads
from .types import GLOBAL, WORKGROUP, IndexType, MemRefType, PointerType, dtype_of, parse, type_of
from .values import Memory
from .walker import Walker, text_of

_OPTIONS = frozenset(("deferred", "effects", "extern_func_name", "pipeline"))    # MLIR's passes have nothing to do here
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")      # differs from process to process
_IN_MLIR = {"fp16": "f16", "fp32": "f32", "fp64": "f64"}
MOST_THREADS = 1 << 20      # elements of the largest tile


class BodyFunction(RawFunction):
    """A function whose Python body is its code."""

    def __init__(self, fn, dialect: str, options: dict[str, Any]):
        super().__init__(fn, dialect)
        self.options = options
        unknown = sorted(options.keys() - _OPTIONS)
        if unknown:
            raise ValueError(f"tle.raw.dialect(name={dialect!r}) of {self.name}: a function whose body is its code has no option "
                             f"{unknown[0]!r}; file= and source= are for code as text")
        if not isinstance(fn, FunctionType):
            raise ValueError(f"tle.raw.dialect(name={dialect!r}) decorates a Python function, got {fn!r}")
        text_of(fn)

    @property
    def cache_key(self) -> str:
        return hashlib.sha256("\n".join(_content(self.fn, set())).encode()).hexdigest()

    def record_call(self, args, output_indices, hint, in_place, semantic, generator):
        call = BodyCall(self, args, in_place, semantic)
        wanted = call.operands.wanted(output_indices)
        returned = call.record(None, lambda index: call.operands.forms[index].effect == "in")
        if output_indices is None and returned is not None:
            wanted = [call.position(memory) for memory in (returned if isinstance(returned, (list, tuple)) else [returned])]
        found = [call.value_after(index) for index in wanted]
        return None if not found else found[0] if len(found) == 1 else tuple(found)


class BodyCall:
    """One call: its arguments in memory, its threads, and the new values."""

    def __init__(self, function: BodyFunction, args: list, in_place: bool, semantic,
                 orders: dict[int, tuple[int, ...]] | None = None):
        self.function, self.given, self.semantic, self.builder = function, args, semantic, semantic.builder
        self.operands = Operands(function, args, in_place, semantic)
        self.orders = orders or {}
        self.memories: dict[int, Memory] = {}
        self.buffers: dict[int, Any] = {}

    def record(self, extents: tuple[int, ...] | None, read_only) -> Any:
        """Record the body for threads of these extents, by default the task's threads; return its results."""
        semantic, builder = self.semantic, self.builder
        for index, (arg, form) in enumerate(zip(self.given, self.operands.forms)):
            if form.kind == "memref":
                self.buffers[index] = self._spilled(index, arg) if isinstance(arg, tl.tensor) else arg
        semantic.debug_barrier()
        threads = Threads(extents or (_threads_of(builder), ), semantic)
        given = {}
        for index, (name, arg, form) in enumerate(zip(self.operands.names, self.given, self.operands.forms)):
            given[name] = self._argument(index, name, arg, form, threads, read_only(index))
        constraint = self.function.hardware
        walker = Walker(self.function.fn, threads, lambda type_, by_thread: self._allocated(type_, by_thread, threads),
                        constraint.sync_scope if constraint is not None else "block")
        returned = walker.walk(given)
        semantic.debug_barrier()
        return returned

    def value_after(self, index: int) -> Any:
        """The new value of an argument: a tile is read again, a buffer is itself."""
        if not isinstance(self.given[index], tl.tensor):
            return self.given[index]
        value = tl.load(local_ptr(self.buffers[index], _semantic=self.semantic), _semantic=self.semantic)
        order = self.orders.get(index)
        if self.given[index].dtype == tl.int1:
            value = self.semantic.not_equal(value, self.semantic.to_tensor(0))
        return value if order is None else self.semantic.permute(value, tuple(order.index(axis) for axis in range(len(order))))

    def position(self, memory: Any) -> int:
        """The index of the argument that the body has returned."""
        found = next((index for index, one in self.memories.items() if one is memory), None)
        if found is None:
            refuse(ValueError, f"{self.function.name} returns {memory!r}; a body returns memrefs among its parameters")
        return found

    # ---- arguments ----------------------------------------------------------------------------------------------------

    def _spilled(self, index: int, tile: tl.tensor):
        """A tile in shared memory; where an order of axes is asked for, with its axes in that order."""
        order = self.orders.get(index)
        if order is not None:
            tile = self.semantic.permute(tile, order)
        if tile.dtype == tl.int1:       # in memory a truth value takes a byte
            tile = self.semantic.cast(tile, tl.int8)
        buffer = alloc([int(extent) for extent in tile.type.shape], tile.dtype, _semantic=self.semantic)
        tl.store(local_ptr(buffer, _semantic=self.semantic), tile, _semantic=self.semantic)
        return buffer

    def _argument(self, index: int, name: str, arg, form, threads: Threads, read_only: bool):
        if form.kind == "memref" and "!llvm.ptr" in str(getattr(self.function.parameters[name], "what", "")):
            buffer, zero = self.buffers[index], self.semantic.scalar_constant(0, tl.int32)
            first = local_ptr(buffer, [zero] * len(form.shape), _semantic=self.semantic)
            return threads.value(first, PointerType(WORKGROUP), self._type(name, buffer.dtype))
        if form.kind == "memref":
            buffer, order = self.buffers[index], self.orders.get(index)
            type_ = MemRefType(tuple(form.shape), self._type(name, buffer.dtype), WORKGROUP)

            def pointers(indices):
                places = indices if order is None else [indices[axis] for axis in order]
                return local_ptr(buffer, places, _semantic=self.semantic)

            self.memories[index] = Memory(name, type_, pointers, read_only)
            return self.memories[index]
        if form.kind == "pointer":
            plain = tl.tensor(arg.handle, tl.pointer_type(_signless(arg.dtype.element_ty)))
            return threads.value(plain, PointerType(GLOBAL), self._type(name, arg.dtype.element_ty))
        if form.kind != "value":
            refuse(ValueError, f"{self.function.name}: `{name}` is an mbarrier, for which MLIR bodies have no op")
        declared = self.function.parameters[name]
        index = declared is not None and declared.what is not None and "index" in str(declared.what)
        type_ = IndexType() if index else parse(_IN_MLIR.get(form.element, form.element))
        if isinstance(arg, tl.tensor):
            return threads.wrap(self.semantic.cast(arg, dtype_of(type_)).handle, type_, False)
        return threads.constant(arg, type_)

    def _type(self, name: str, dtype: tl.dtype):
        try:
            return type_of(_signless(dtype))
        except ValueError as error:
            refuse(ValueError, f"{self.function.name}: `{name}`: {error}")

    def _allocated(self, type_: MemRefType, by_thread: bool, threads: Threads) -> Memory:
        """Memory of the body's own: of all threads, or with an element for each thread."""
        shape = [*type_.shape, threads.width] if by_thread else list(type_.shape)
        buffer = alloc(shape, dtype_of(type_.element_type), _semantic=self.semantic)

        def pointers(indices):
            if by_thread:
                indices = [*(threads.spread(threads.value(one, threads.lane.type)).tensor for one in indices), threads.lane.tensor]
            return local_ptr(buffer, indices, _semantic=self.semantic)

        return Memory(str(type_), type_, pointers)


def _signless(dtype: tl.dtype) -> tl.dtype:
    """Integers in bodies have no sign."""
    return getattr(tl, f"int{dtype.primitive_bitwidth}") if dtype.is_int() and not dtype.is_bool() else dtype


def _threads_of(builder) -> int:
    """The threads of the task, or of the CTA, that makes the call."""
    task = builder.task
    warps = task.num_warps if task is not None else getattr(builder.options, "num_warps", 4)
    return warps * getattr(builder.options, "warp_size", 32)


def _content(fn: FunctionType, seen: set[int]) -> list[str]:
    """The texts of a body, of the helpers that it names, and of the values that it takes from its module and its closure."""
    if id(fn) in seen:
        return []
    seen.add(id(fn))
    found = [text_of(fn)[0]]
    closure = {name: cell.cell_contents for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ())}
    for name in (*fn.__code__.co_names, *fn.__code__.co_freevars):
        value = closure.get(name, fn.__globals__.get(name))
        if isinstance(value, FunctionType):
            found += _content(value, seen)
        elif not isinstance(value, ModuleType) and value is not None:
            found.append(f"{name} = {_ADDRESS.sub('', repr(value))}")
    return found


def check_extents(extents: tuple[int, ...]) -> None:
    """ValueError for more threads than a tile has elements."""
    if prod(extents) > MOST_THREADS:
        refuse(ValueError, f"tle.call: hardware asks for {prod(extents)} threads; an index space has {MOST_THREADS} at most")
