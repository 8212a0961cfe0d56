"""The dialects `memref`, `tensor` and `llvm`: a thread reads and writes elements of shared memory, or through pointers.

Input: memory of a body, indices, numbers. Output: loads and stores through `local_ptr` or global pointers, for the threads that
come.
For example, with `x` a memref of 1024 f32:

    memref.load(x, [i])                     %p = local_ptr %x, [%i]; %v = load %p, or masked_load where only some threads come
    tensor.insert(v, y, [i])                store; y holds the value afterwards, also for the kernel
    llvm.load(f32, llvm.getelementptr(ptr, p, [i], [], f32))        addptr, load

Threads that write one element at once: one of them wins, and which is the author's race.
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from .arith import cast_type
from .atomics import combine, order_of
from .dialect import DIALECTS, op
from .threads import I32, INDEX
from .types import DYNAMIC, MemRefType, PointerType, RankedTensorType, Type, VectorType, dtype_of, is_integer
from .values import Memory, Number, Vector


def place(body, memory: Any, indices: Any, what: str) -> tl.tensor:
    """Pointers to the element of each thread; a scalar, if it is the same one for all."""
    threads = body.threads
    if not isinstance(memory, Memory):
        body.fail(f"{what}: expected a memref or a tensor, got {memory!r}")
    given = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    if len(given) != memory.type.rank:
        body.fail(f"{what}: {len(given)} indices for {memory.name} of rank {memory.type.rank}, {memory.type}")
    numbers = [threads.number(index, INDEX, f"{what}: an index") for index in given]
    for number in numbers:
        if not is_integer(number.type):
            body.fail(f"{what}: an index must be an integer, got {number.type}", "arith.index_cast makes an index of an iN")
    numbers = threads.alike(*(threads.resized(number, I32) for number in numbers))
    return memory.pointers([number.tensor for number in numbers])


def read(body, pointer: tl.tensor, type_: Type) -> Number:
    """The values that active threads read at their pointers; 0 for the other threads."""
    threads, semantic = body.threads, body.threads.semantic
    if threads.mask is None or not (pointer.type.is_block() or threads.diverged):
        return threads.wrap(tl.load(pointer, _semantic=semantic).handle, type_, pointer.type.is_block())
    mask, pointer = _masked(body, pointer)
    zero = threads.constant(0, type_)
    return threads.wrap(tl.load(pointer, mask=mask, other=zero.tensor, _semantic=semantic).handle, type_, True)


def write(body, pointer: tl.tensor, value: Number) -> None:
    """Each thread that comes writes its value at its pointer."""
    threads, semantic = body.threads, body.threads.semantic
    uniform = not (pointer.type.is_block() or value.lanes or threads.diverged)
    if uniform or threads.mask is None and pointer.type.is_block():
        tl.store(pointer, value.tensor if uniform else threads.spread(value).tensor, _semantic=semantic)
        return
    if threads.mask is None:
        tl.store(_spread(body, pointer), value.tensor, _semantic=semantic)
        return
    mask, pointer = _masked(body, pointer)
    tl.store(pointer, threads.spread(value).tensor, mask=mask, _semantic=semantic)


def _masked(body, pointer: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    return body.threads.spread(body.threads.mask).tensor, _spread(body, pointer)


def _spread(body, pointer: tl.tensor) -> tl.tensor:
    return pointer if pointer.type.is_block() else body.threads.semantic.splat(pointer, [body.threads.width])


def _element(memory: Memory) -> Type:
    return memory.type.element_type


# ---- memref and tensor ------------------------------------------------------------------------------------------------


@op("memref")
def load(body, memref, indices, nontemporal=None):
    """The element at the thread's indices."""
    return read(body, place(body, memref, indices, "memref.load"), _element(memref))


@op("memref", classes=("StoreOp", ))
def store(body, value, memref, indices, nontemporal=None):
    """Write the element at the thread's indices."""
    put(body, value, memref, indices, "memref.store")


@op("tensor")
def extract(body, tensor, indices, results=None):
    """The element at the thread's indices."""
    return read(body, place(body, tensor, indices, "tensor.extract"), _element(tensor))


@op("tensor")
def insert(body, scalar, dest, indices, results=None):
    """Write the element at the thread's indices: in place, `dest` itself comes back."""
    put(body, scalar, dest, indices, "tensor.insert")
    return dest


def put(body, value, memory, indices, what: str) -> None:
    """Write an element of `memory`, whose type the value must have."""
    pointer = place(body, memory, indices, what)
    value = body.threads.number(value, _element(memory), f"{what}: the value")
    if value.type != _element(memory):
        body.fail(f"{what}: a value of type {value.type} for elements of {_element(memory)}")
    body.writes(memory, what)
    write(body, pointer, value)


def _dim(body, source, index):
    """The number of elements along one axis."""
    if not isinstance(source, Memory):
        body.fail(f"dim: expected a memref or a tensor, got {source!r}")
    axis = index if isinstance(index, int) else body.known(index)
    if axis is None or not 0 <= axis < source.type.rank:
        body.fail(f"dim: the axis must be a constant from 0 to {source.type.rank - 1}")
    return body.threads.constant(source.type.shape[axis], INDEX)


op("memref", "dim")(_dim)
op("tensor", "dim")(_dim)


@op("memref", classes=("AtomicRMWOp", ))
def atomic_rmw(body, kind, value, memref, indices):
    """Combine each thread's value with the element, in one step; give the element's old value."""
    pointer = place(body, memref, indices, "memref.atomic_rmw")
    value = body.threads.number(value, _element(memref))
    if value.type != _element(memref):
        body.fail(f"memref.atomic_rmw: a value of type {value.type} for elements of {_element(memref)}")
    body.writes(memref, "memref.atomic_rmw")
    return combine(body, kind, _spread(body, pointer), value, "memref.atomic_rmw")


@op("memref")
def alloca(body, memref, dynamic_sizes=None, symbol_operands=None, alignment=None):
    """Elements of each thread's own; they lie in shared memory, thread beside thread."""
    return body.allocate(_static(body, memref, "memref.alloca"), by_thread=memref.memory_space != 3)


@op("memref")
def alloc(body, memref, dynamic_sizes=None, symbol_operands=None, alignment=None):
    """Elements in shared memory that all threads see; `memref<.., 3>`."""
    if isinstance(memref, MemRefType) and memref.memory_space != 3:
        body.fail(f"memref.alloc makes shared memory, and {memref} is not in space 3", "write memref<.., 3>, or memref.alloca")
    return body.allocate(_static(body, memref, "memref.alloc"), by_thread=False)


@op("memref")
def dealloc(body, memref):
    """Nothing: memory lives as long as the kernel."""


def _static(body, type_, what: str) -> MemRefType:
    if not isinstance(type_, (MemRefType, RankedTensorType)) or None in type_.shape:
        body.fail(f"{what} takes a memref type with known extents, got {type_}")
    return type_


# ---- pointers ---------------------------------------------------------------------------------------------------------


def pointer(body, value: Any, what: str) -> Number:
    value = body.threads.number(value, None, f"{what}: the pointer")
    if not isinstance(value.type, PointerType):
        body.fail(f"{what} takes an !llvm.ptr, got {value.type}")
    return value


def pointing(body, value: Number, type_: Type) -> tl.tensor:
    """The pointer as one to elements of `type_`."""
    dtype = tl.pointer_type(dtype_of(type_))
    if value.tensor.dtype.element_ty == dtype.element_ty:
        return value.tensor
    return body.threads.semantic.bitcast(value.tensor, dtype)


@op("llvm", classes=("GEPOp", ))
def getelementptr(body, res, base, dynamic_indices=(), raw_constant_indices=None, elem_type=None, no_wrap_flags=None, **flags):
    """The address of an element behind `base`: the sum of the indices, in elements of `elem_type`."""
    threads = body.threads
    base, wanted = pointer(body, base, "llvm.getelementptr"), elem_type or base.pointee
    if wanted is None:
        body.fail("llvm.getelementptr: the type of the elements is not known", "give elem_type")
    dynamic = list(dynamic_indices if isinstance(dynamic_indices, (list, tuple)) else [dynamic_indices])
    constants = [getattr(one, "value", one) for one in (raw_constant_indices or [-2147483648] * len(dynamic))]
    if len(constants) != 1:
        body.fail(f"llvm.getelementptr: bodies have no structures behind pointers, so it takes one index, got {len(constants)}")
    (step, ) = constants
    if step in (-2147483648, DYNAMIC):
        if len(dynamic) != 1:
            body.fail(f"llvm.getelementptr: one index is dynamic, {len(dynamic)} are given")
        step = threads.number(dynamic[0], INDEX)
    else:
        step = threads.constant(step, INDEX)
    if not is_integer(step.type):
        body.fail(f"llvm.getelementptr: an index must be an integer, got {step.type}")
    return threads.value(threads.semantic.add(pointing(body, base, wanted), step.tensor, False), base.type, wanted)


@op("llvm", "load")
def llvm_load(body, res, addr=None, **hints):
    """The number of type `res` at the thread's address."""
    type_, address = cast_type(body, "llvm.load", res, addr)
    address = pointer(body, address, "llvm.load")
    if not isinstance(type_, VectorType):
        return read(body, pointing(body, address, type_), type_)
    return Vector(tuple(read(body, one, type_.element_type) for one in _steps(body, address, type_)), type_)


@op("llvm", "store")
def llvm_store(body, value, addr, **hints):
    """Write the value at the thread's address."""
    address = pointer(body, addr, "llvm.store")
    if isinstance(value, Vector):
        for one, at in zip(value.numbers, _steps(body, address, value.type)):
            write(body, at, one)
    else:
        value = body.threads.number(value, address.pointee, "llvm.store: the value")
        write(body, pointing(body, address, value.type), value)
    body.settle()


def _steps(body, address: Number, type_: VectorType) -> list[tl.tensor]:
    first = pointing(body, address, type_.element_type)
    return [body.threads.semantic.add(first, step, False) if step else first for step in range(type_.shape[0])]


@op("llvm", classes=("AtomicRMWOp", ))
def atomicrmw(body, bin_op, ptr, val, ordering=None, **hints):
    """Combine each thread's value with the number at its address, in one step; give the old number."""
    address = pointer(body, ptr, "llvm.atomicrmw")
    value = body.threads.number(val, address.pointee)
    order = order_of(body, ordering, "llvm.atomicrmw")
    return combine(body, bin_op, _spread(body, pointing(body, address, value.type)), value, "llvm.atomicrmw", order)


DIALECTS["llvm"].PointerType = PointerType


@op("llvm", classes=("ConstantOp", ), name="mlir_constant")
def llvm_constant(body, *values, **named):
    """The same as arith.constant."""
    from .arith import constant
    return constant.record(body, list(values), named)
