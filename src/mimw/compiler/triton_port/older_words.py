"""Functions of Triton 3.9's language that 3.8 lacks, over our recorder: `tl.atomic_load`, `.._poll` and `.._store`, and the two of
programmatic dependent launch, which 3.8 writes as assembly.

Input: nothing; `add()` once, where Triton is 3.8. Output: the names in Triton's own modules, and their meaning in `OlderSemantic`:

    tl.atomic_store(flag, 1, sem="release", scope="gpu")        an op `atomic_store` in the recorder, as on 3.9
    tl.extra.cuda.gdc_wait()                                    an op `grid_dependency_wait`; without our words 3.8's own

Which types are taken, what is broadcast and what is refused is as 3.9 has it. `older_builder` says what the compiler makes of them.
"""

from __future__ import annotations

import functools

import triton.language as tl
from triton._C.libtriton import ir as mlir
from triton.language import core
from triton.language.extra import cuda
from triton.language.extra.cuda import gdc
from triton.language.semantic import TritonSemantic


class OlderSemantic(TritonSemantic):
    """3.8's semantics with the methods of 3.9's that functions of this package, or those below, call."""

    def make_tensor(self, handle, type):
        return self.tensor(handle, type)

    def atom_red_typechecking_impl(self, ptr, val, mask, op):
        return super().atom_red_typechecking_impl(self._pointers_of(ptr, op), val, mask, op)

    def _pointers_of(self, ptr, op: str):
        """The pointers of an atomic function; a semantics of ours refuses what is none."""
        return ptr

    def atomic_load(self, ptr, mask, sem, scope):
        """3.9's: the default is an acquire."""
        given, sem = ptr.type.scalar, self._str_to_sem(sem) if sem else mlir.MEM_SEMANTIC.ACQUIRE
        ptr, _, mask = self._checked(ptr, None, mask, "load")
        if sem not in (mlir.MEM_SEMANTIC.ACQUIRE, mlir.MEM_SEMANTIC.RELAXED):
            raise ValueError("atomic_load only supports acquire and relaxed semantics")
        element = ptr.type.scalar.element_ty
        type_ = ptr.type.with_element_ty(element) if ptr.type.is_block() else element
        found = self.tensor(self.builder.create_atomic_load(ptr.handle, mask.handle, sem, self._str_to_scope(scope)), type_)
        return self.cast(found, tl.int1) if given.element_ty == tl.int1 else found

    def atomic_store(self, ptr, val, mask, sem, scope):
        """3.9's: the default is a release."""
        ptr, val, mask = self._checked(ptr, val, mask, "store")
        sem = self._str_to_sem(sem) if sem else mlir.MEM_SEMANTIC.RELEASE
        if sem not in (mlir.MEM_SEMANTIC.RELEASE, mlir.MEM_SEMANTIC.RELAXED):
            raise ValueError("atomic_store only supports release and relaxed semantics")
        self.builder.create_atomic_store(ptr.handle, val.handle, mask.handle, sem, self._str_to_scope(scope))
        return self.tensor(None, tl.void)

    def atomic_poll(self, ptr, expected, sem, scope, timeout_ns):
        """3.9's: the default is an acquire."""
        if isinstance(timeout_ns, int) and timeout_ns < 0:
            raise ValueError("atomic_poll timeout_ns must be non-negative")
        ptr = self._pointers_of(ptr, "poll")
        if not ptr.type.scalar.is_ptr():
            raise ValueError(f"Unsupported ptr type {ptr.type!r} in `tl.atomic_poll`")
        element = ptr.type.scalar.element_ty
        if not element.is_int() or element.primitive_bitwidth not in (16, 32, 64):
            raise ValueError("atomic_poll only supports integer elements with width {16, 32, 64}")
        ptr, expected, _ = self._broadcast_ptr_val_mask(ptr, self.cast(expected, element), None)
        sem = self._str_to_sem(sem) if sem else mlir.MEM_SEMANTIC.ACQUIRE
        if sem not in (mlir.MEM_SEMANTIC.ACQUIRE, mlir.MEM_SEMANTIC.RELAXED):
            raise ValueError("atomic_poll only supports acquire and relaxed semantics")
        if timeout_ns is not None:
            timeout_ns = self.to_tensor(timeout_ns)
            if timeout_ns.type.is_block() or not timeout_ns.type.is_int():
                raise ValueError("atomic_poll timeout_ns must be a scalar integer")
            timeout_ns = self.cast(timeout_ns, tl.uint64).handle
        found = self.builder.create_atomic_poll(ptr.handle, expected.handle, timeout_ns, sem, self._str_to_scope(scope))
        return self.tensor(found, expected.type.with_element_ty(tl.int1))

    def _checked(self, ptr, val, mask, op: str):
        ptr = self._pointers_of(ptr, op)
        if not ptr.type.scalar.is_ptr():
            raise ValueError(f"Unsupported ptr type {ptr.type!r} in `tl.atomic_{op}`")
        if val is not None and (ptr.type.is_const() or ptr.type.scalar.is_const()):
            raise ValueError("Cannot store to a constant pointer")
        if ptr.type.is_block():
            if val is not None:
                ptr, val, mask = self._broadcast_ptr_val_mask(ptr, val, mask)
            elif mask is not None:
                ptr, mask = self.broadcast_impl_value(ptr, mask)
        elif val is not None and val.type.is_block():
            raise ValueError("Value argument cannot be block type if pointer argument is not a block")
        elif mask is not None and mask.type.is_block():
            raise ValueError("Mask argument cannot be block type if pointer argument is not a block")
        element = ptr.type.scalar.element_ty
        if element == tl.int1:
            element = tl.int8
            ptr = self.cast(ptr, tl.pointer_type(element, ptr.type.scalar.address_space))
        if not (element.is_int() or element.is_floating()):
            raise ValueError(f"atomic_{op} only supports integer and floating-point elements")
        val = val if val is None else self.cast(val, element)
        if mask is None:
            handle, type_ = self.builder.get_int1(True), tl.int1
            if ptr.type.is_block():
                type_ = ptr.type.with_element_ty(tl.int1)
                handle = self.builder.create_splat(type_.to_ir(self.builder), handle)
            mask = self.tensor(handle, type_)
        elif not mask.type.scalar.is_bool():
            raise ValueError("Mask must have boolean scalar type")
        return ptr, val, mask

    def grid_dependency_wait(self) -> None:
        self.builder.create_grid_dependency_wait()

    def grid_dependency_launch_dependents(self) -> None:
        self.builder.create_grid_dependency_launch_dependents()


@core.builtin
def atomic_load(pointer, mask=None, sem=None, scope=None, _semantic=None):
    """Atomically load from the memory locations that `pointer` names: Triton 3.9's function."""
    sem, scope, mask = map(core._unwrap_if_constexpr, (sem, scope, mask))
    return _ours(_semantic, "atomic_load").atomic_load(pointer, mask, sem, scope)


@core.builtin
def atomic_store(pointer, val, mask=None, sem=None, scope=None, _semantic=None):
    """Atomically store `val` at the memory locations that `pointer` names: Triton 3.9's function."""
    sem, scope, mask = map(core._unwrap_if_constexpr, (sem, scope, mask))
    semantic = _ours(_semantic, "atomic_store")
    return semantic.atomic_store(pointer, semantic.to_tensor(val), mask, sem, scope)


@core.builtin
def atomic_poll(pointer, expected_value, sem=None, scope=None, timeout_ns=None, _semantic=None):
    """Wait until the value at `pointer` is `expected_value`: Triton 3.9's function."""
    sem, scope, timeout_ns = map(core._unwrap_if_constexpr, (sem, scope, timeout_ns))
    semantic = _ours(_semantic, "atomic_poll")
    return semantic.atomic_poll(pointer, semantic.to_tensor(expected_value), sem, scope, timeout_ns)


def _ours(semantic, name: str) -> OlderSemantic:
    """The semantics of our recorder; ValueError on Triton's own path, which cannot compile the function."""
    if not isinstance(semantic, OlderSemantic):
        raise ValueError(f"Triton 3.8 has no tl.{name}; a kernel of mimw.jit that uses a function of tlx or tle has it, "
                         "and so has Triton 3.9")
    return semantic


def _over(name: str):
    """3.8's function of dependent launch; over our recorder an op of its own, for the simulator and the checks."""
    stock = getattr(gdc, f"gdc_{name.removeprefix('grid_dependency_')}")

    @functools.wraps(stock)
    def function(_semantic=None):
        if isinstance(_semantic, OlderSemantic):
            return getattr(_semantic, name)()
        return stock(_semantic=_semantic)

    return function


def add() -> None:
    """Put the functions where 3.9 has them. Idempotent."""
    if hasattr(tl, "atomic_store"):
        return
    for function in (atomic_load, atomic_poll, atomic_store):
        function.__module__ = core.__name__
        for owner in (tl, core):
            setattr(owner, function.__name__, function)
    for name in ("grid_dependency_wait", "grid_dependency_launch_dependents"):
        function = _over(name)
        for owner in (cuda, gdc):
            setattr(owner, function.__name__, function)
