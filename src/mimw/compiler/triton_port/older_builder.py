"""Triton 3.8's builder under the methods of 3.9's, which lowering calls.

Input: what 3.9's methods take. Output: ops of 3.8 that mean the same; or `NotInTriton`, to which lowering adds the kernel's line:

    builder.create_atomic_store(flag, one, mask, RELEASE, GPU)      a barrier of the task, and an exchange that releases

Each docstring says why that is the same. `differences` has the table of all.
"""

from __future__ import annotations

import triton
from triton._C.libtriton import ir as mlir
from triton._C.libtriton.gluon_ir import GluonOpBuilder as _Stock

from . import thread_assembly
from .tile_types import types

MODIFIERS = {"none": "NONE", "ca": "CA", "cg": "CG", "wb": "WB", "cs": "CS", "wt": "WT", "cv": "CV"}
EVICTIONS = {"evict_normal": "NORMAL", "evict_last": "EVICT_LAST", "evict_first": "EVICT_FIRST"}
_SPACES = {"global": 1, "shared": 3, "constant": 4}
_SCOPES = {"GPU": "gpu", "CTA": "cta", "SYSTEM": "sys"}
_ORDER = mlir.MEM_SEMANTIC


class NotInTriton(Exception):
    """The compiler of the installed Triton lacks what an op of the kernel needs; `what` says that in words."""

    def __init__(self, what: str):
        self.what = what
        super().__init__(f"Triton {triton.__version__} cannot compile {what}.")


class _Policy(tuple):
    """(modifier, eviction policy), as texts, on their way to a method that takes two arguments."""


def _in_two(name: str):
    """The method of 3.8's builder that takes both cache hints, called with one argument for both."""
    stock = getattr(_Stock, name)

    def method(self, *args, cache_policy=None):
        made = []
        for arg in (*args, *(() if cache_policy is None else (cache_policy, ))):
            if isinstance(arg, _Policy):
                made += [getattr(mlir.CACHE_MODIFIER, MODIFIERS[arg[0]]), getattr(mlir.EVICTION_POLICY, EVICTIONS[arg[1]])]
            else:
                made.append(arg)
        return stock(self, *made)

    return method


def _without(name: str):
    """The method of 3.8's builder for a TMA copy, which takes no cache hint: it is left out, as a hint changes no value (PTX ISA,
    cache eviction priority hints)."""
    stock = getattr(_Stock, name)

    def method(self, *args, **named):
        return stock(self, *(arg for arg in args if not isinstance(arg, _Policy)),
                     **{key: arg for key, arg in named.items() if not isinstance(arg, _Policy)})

    return method


class Older(_Stock):
    """3.8's builder under the methods of 3.9's."""

    def get_cache_policy(self, modifier: str, eviction: str) -> _Policy:
        return _Policy((modifier, eviction))

    def create_module(self):
        self.module, self.assemblies = super().create_module(), 0
        return self.module

    def create_threadwise_inline_asm(self, assembly: str, constraints: str, operands: list, results: list, pure: bool):
        """Pure assembly of numbers is `tt.elementwise_inline_asm`, which Triton may move and join, and which has a result."""
        given = [str(type_) for type_ in (*(value.get_type() for value in operands), *results)]
        if pure and not any(text.startswith(("tensor<", "!ttg.", "!tt.tensordesc")) for text in given):
            return self.create_inline_asm(assembly, constraints, operands, results, pure, 1)
        if len(results) > 1 and any(str(type_).startswith("tensor<") for type_ in results):
            raise NotInTriton("assembly that runs once in each thread and gives several tiles")
        if not self._is_nvidia() and any(str(type_).startswith("tensor<") for type_ in results):
            raise NotInTriton("assembly that runs once in each thread and gives a tile, on AMD's chips")     # lowering asserts
        self.assemblies += 1
        return thread_assembly.called(self, self.module, self.assemblies, assembly, constraints, operands, results, pure)

    def window(self, storage, total: int, offset: int, size: int, layout):
        """The bytes [offset, offset + size) of `total`, as one of equal windows: 3.8 refuses to see a part that is cut from a
        buffer as another one, and its check of such parts ends in an assertion for layouts of rows alone."""
        if total % size or offset % size:
            raise NotInTriton(f"an array of {size} bytes at byte {offset} of storage of {total} bytes, not one of equal parts")
        byte = self.get_int8_ty()
        whole = self.create_memdesc_reinterpret(
            self.get_shared_mem_desc_ty(byte, [total // size, size], layout, [total // size, size]), storage)
        return self.create_memdesc_index(self.get_shared_mem_desc_ty(byte, [size], layout, [size]), whole,
                                         self.get_int32(offset // size))

    def held(self, value):
        """A tile behind a call; any other value as it is."""
        if not str(value.get_type()).startswith("tensor<"):
            return value
        self.assemblies += 1
        return thread_assembly.same(self, self.module, self.assemblies, value)

    def get_total_elems_per_thread(self, type_) -> int:
        return thread_assembly.elements(type_)

    def create_atomic_rmw(self, kind, pointer, value, mask, order, scope):
        """3.9 holds the task before an atomic that releases and behind one that acquires, so that the order is that of all its
        threads; 3.8 does not, and one thread would release its own accesses only."""
        return self._in_order(order, super().create_atomic_rmw, kind, pointer, value, mask, order, scope)

    def create_atomic_cas(self, pointer, compare, value, order, scope):
        """As `create_atomic_rmw`."""
        return self._in_order(order, super().create_atomic_cas, pointer, compare, value, order, scope)

    def _in_order(self, order, create, *args):
        if order in (_ORDER.RELEASE, _ORDER.ACQUIRE_RELEASE):
            self.create_barrier()
        made = create(*args)
        if order in (_ORDER.ACQUIRE, _ORDER.ACQUIRE_RELEASE):
            self.create_barrier()
        return made

    def create_atomic_store(self, pointer, value, mask, order, scope) -> None:
        """An exchange with that order and scope, whose result nobody takes.

        It is a store in the modification order, atomic as the store is, and of the same order, release or relaxed. It also reads,
        which only makes a release sequence longer: whoever acquires is ordered behind at least as much (PTX ISA, memory consistency
        model). Triton lets one thread do each element of a tile, and thread 0 a number, for an exchange as for a store.
        """
        if not any(name in str(pointer.get_type()) for name in ("<i32", "<i64", "<f32", "<f64")):
            raise NotInTriton(f"atomic stores of elements that have not 32 or 64 bits ({pointer.get_type()})")
        self.create_atomic_rmw(mlir.ATOMIC_OP.XCHG, pointer, value, mask, order, scope)

    def create_atomic_load(self, pointer, mask, order, scope):
        """An OR with 0: it leaves what is there and reads it by that order.

        One thread does it for each element, and Triton hands the value to the others, so all hold the same one, which a load by
        each thread would not promise. It cannot get in the way of another atomic. A plain store to the same place at the same time
        could be lost, but that is a race on 3.9, too, which `mimw.check` names.
        """
        text = str(pointer.get_type())
        if (bits := next((bits for bits in ("32", "64") if f"!tt.ptr<i{bits}>" in text), None)) is None:
            raise NotInTriton(f"atomic loads of elements that are no integers of 32 or 64 bits ({text})")
        zero = getattr(self, f"get_int{bits}")(0)
        if text.startswith("tensor<"):
            (type_, ) = types([text.replace(f"!tt.ptr<i{bits}>", f"i{bits}")], self.module.context)
            zero = self.create_splat(type_, zero)
        return self.create_atomic_rmw(mlir.ATOMIC_OP.OR, pointer, zero, mask, order, scope)

    def create_atomic_poll(self, pointer, expected, timeout, order, scope):
        """Every thread loads by that order until it finds the value, and then waits for the task's other threads: nobody goes on to
        write there again while another one still looks. Each has acquired by its own load (PTX ISA, ld.acquire)."""
        if str(pointer.get_type()) not in ("!tt.ptr<i32>", "!tt.ptr<i64>") or timeout is not None or not self._is_nvidia():
            raise NotInTriton("tl.atomic_poll but on NVIDIA's chips, of an integer of 32 or 64 bits, without timeout_ns")
        bits = str(pointer.get_type())[-3:-1]
        kind = f"{'acquire' if order == _ORDER.ACQUIRE else 'relaxed'}.{_SCOPES[scope.name]}"
        text = (f"{{\n.reg .pred done;\n.reg .b{bits} seen;\nagain:\nld.{kind}.global.b{bits} seen, [$0];\n"
                f"setp.eq.b{bits} done, seen, $1;\n@!done bra again;\n}}")
        self.create_threadwise_inline_asm(text, f"l,{'l' if bits == '64' else 'r'},~{{memory}}", [pointer, expected], [], False)
        self.create_barrier()
        return self.get_int1(True)

    def create_grid_dependency_wait(self) -> None:
        self._dependency("wait")

    def create_grid_dependency_launch_dependents(self) -> None:
        self._dependency("launch_dependents")

    def _dependency(self, what: str) -> None:
        if self._is_nvidia():
            self.create_inline_asm(f"griddepcontrol.{what}; // dummy $0", "=r", [], [self.get_int32_ty()], False, 1)

    def get_ptr_ty(self, element, space: str):
        return super().get_ptr_ty(element, _SPACES[space])

    def create_mbarrier_arrive(self, barrier, count: int, predicate) -> None:
        super().create_mbarrier_arrive(barrier, count, 0, predicate)     # 0: of this CTA's barrier

    def create_tmem_subslice(self, type_, memory, offset: int, dim: int):
        return super().create_tmem_subslice(type_, memory, offset)       # along columns, as each of our slices is

    def _is_nvidia(self) -> bool:
        return not str(getattr(self.options, "arch", "")).startswith("gfx")

    def create_amd_sched_barrier(self, mask: int) -> None:
        """A call, which becomes LLVM's intrinsic behind Triton's passes."""
        self.assemblies += 1
        thread_assembly.called(self, self.module, self.assemblies, f"{thread_assembly.SCHEDULED} {mask}", "", [], [], False)

    def create_async_tdm_fused_copy_global_to_local(self, *args):
        raise NotInTriton("several copies of the tensor data mover as one")


def add() -> None:
    """Put in the methods that take cache hints, which differ from one another in their names only."""
    for name in ("create_load", "create_masked_load", "create_store", "create_masked_store", "create_descriptor_load",
                 "create_async_copy_global_to_local"):
        setattr(Older, name, _in_two(name))
    for name in ("create_async_tma_copy_global_to_local", "create_async_tma_copy_local_to_global", "create_async_tma_gather",
                 "create_async_tma_scatter"):
        setattr(Older, name, _without(name))
