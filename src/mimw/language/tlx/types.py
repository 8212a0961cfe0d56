"""Values a kernel holds besides tiles and scalars, with their types: buffers, barriers, tokens and kin.

Types decide how helpers are specialised (`mangle`) and what may be carried through loops and branches (equality). All can
be made in plain Python, for tests and as constants.
"""

from __future__ import annotations

from enum import Enum

import triton.language.core as tl

from ... import ir
from ..core import HandleType, HandleValue, host_constructible, unwrap, word
from .layouts import row_major


@host_constructible
class storage_kind(Enum):
    """Where a buffer lives. `smemCluster` is another CTA's shared memory; only `remote_view` gives it."""

    smem = "smem"
    tmem = "tmem"
    smemCluster = "smemCluster"


class buffered_tensor_type(HandleType):
    """`num` buffers of `shape` in one storage; `num == 0` is a single one.

    `order` is where the elements lie: `order[0]` is the fastest dimension. It follows the pinned layout if that has one, and
    is row-major otherwise; a transposed view has it permuted.
    """

    def __init__(self, element_ty, shape, num, storage, layout=None, order=None):
        self.element_ty, self.num, self.storage, self.layout = unwrap(element_ty), unwrap(num), unwrap(storage), unwrap(layout)
        self.shape = tuple(unwrap(shape))
        self.order = tuple(order or getattr(self.layout, "order", None) or row_major(len(self.shape)))

    @property
    def scalar(self):
        return self.element_ty

    def to_ir(self, builder) -> ir.Buffer:
        return ir.Buffer(self.element_ty.to_ir(builder), self.shape, self.num, self.storage.value)

    def value(self, handle) -> buffered_tensor:
        return buffered_tensor(handle, self.element_ty, self.shape, self.num, self.storage, self.layout, order=self.order)

    def with_(self, shape=None, num=None, layout=None, order=None) -> buffered_tensor_type:
        """This type with some fields changed."""
        return buffered_tensor_type(self.element_ty, self.shape if shape is None else shape,
                                    self.num if num is None else num, self.storage, layout or self.layout, order or self.order)

    def mangle(self) -> str:
        shape, order = "_".join(map(str, self.shape)), "_".join(map(str, self.order))
        pinned = f"L{self.layout.mangle()}L" if self.layout is not None else ""
        return f"buffer_{self.element_ty.mangle()}S{shape}S_n{self.num}_{self.storage.value}_o{order}{pinned}"

    def __str__(self) -> str:
        array = f" x {self.num}" if self.num else ""
        return f"buffered_tensor<{self.element_ty}{list(self.shape)}{array} in {self.storage.value}>"


class buffered_tensor(HandleValue):
    """A handle to `num` equally shaped buffers; subscript with `buf[i]`. `num == 0` is a single buffer."""

    def __init__(self, handle, element_ty, shape, num, storage, layout=None, *, order=None):
        super().__init__(handle)
        self.type = buffered_tensor_type(element_ty, shape, num, storage, layout, order)

    @property
    def dtype(self):
        return self.type.element_ty

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def num(self) -> int:
        return self.type.num

    @word
    def __getitem__(self, idx, _semantic=None):
        """`buf[i]` is `local_view(buf, i)`."""
        from .local_mem import local_view
        return local_view(self, idx, _semantic=_semantic)


class mbarrier_type(HandleType):
    """`num` mbarriers; `num == 0` is a single one. On a warp barrier every thread arrives for itself."""

    def __init__(self, num, layout, storage, is_warp_barrier=False):
        self.num, self.layout, self.storage = unwrap(num), unwrap(layout), unwrap(storage)
        self.is_warp_barrier = bool(unwrap(is_warp_barrier))

    def to_ir(self, builder) -> ir.Barrier:
        return ir.Barrier(self.num, self.is_warp_barrier)

    def value(self, handle) -> mbarrier:
        return mbarrier(handle, self.num, self.layout, self.storage, self.is_warp_barrier)

    def mangle(self) -> str:
        return f"mbarrier_n{self.num}_{self.storage.value}{'_warp' if self.is_warp_barrier else ''}"

    def __str__(self) -> str:
        warp = "warp " if self.is_warp_barrier else ""
        return f"mbarrier<{warp}{f'x {self.num}' if self.num else 'single'} in {self.storage.value}>"


class mbarrier(HandleValue):
    """A handle to `num` barriers of 64 bits in shared memory; subscript with `bar[i]`."""

    def __init__(self, handle, num, layout=None, storage=storage_kind.smem, is_warp_barrier=False):
        super().__init__(handle)
        self.type = mbarrier_type(num, layout, storage, is_warp_barrier)

    @property
    def num(self) -> int:
        return self.type.num

    @property
    def is_warp_barrier(self) -> bool:
        return self.type.is_warp_barrier

    @word
    def __getitem__(self, idx, _semantic=None):
        """`bar[i]` is `local_view(bar, i)`."""
        from .local_mem import local_view
        return local_view(self, idx, _semantic=_semantic)


class async_token_type(HandleType):
    """The type of every token."""

    def to_ir(self, builder) -> ir.Token:
        return ir.Token()

    def value(self, handle) -> async_token:
        return async_token(handle)

    def mangle(self) -> str:
        return "async_token"

    __str__ = mangle


class async_token(HandleValue):
    """The order between asynchronous copies, their commits and their waits; it has no value at run time."""

    def __init__(self, handle):
        super().__init__(handle)
        self.type = async_token_type()


class clc_response_type(HandleType):
    """`num` answers of 16 bytes to cluster launch requests; `num == 0` is a single one."""

    def __init__(self, num, layout=None, storage=storage_kind.smem):
        self.num, self.layout, self.storage = unwrap(num), unwrap(layout), unwrap(storage)

    def value(self, handle) -> clc_response:
        return clc_response(handle, self.num, self.layout, self.storage)

    def mangle(self) -> str:
        return f"clc_response_n{self.num}_{self.storage.value}"

    def __str__(self) -> str:
        return f"clc_response<{f'x {self.num}' if self.num else 'single'}>"


class clc_response(HandleValue):
    """A handle to answers to cluster launch requests."""

    def __init__(self, handle, num, layout=None, storage=storage_kind.smem):
        super().__init__(handle)
        self.type = clc_response_type(num, layout, storage)

    @property
    def num(self) -> int:
        return self.type.num

    @word
    def __getitem__(self, idx, _semantic=None):
        """`response[i]` is `local_view(response, i)`."""
        from .local_mem import local_view
        return local_view(self, idx, _semantic=_semantic)


class _CLCPipelineContextType(tl.base_type):

    def __init__(self, types):
        self.types = types

    def mangle(self) -> str:
        return "clc_context_" + "_".join(type_.mangle() for type_ in self.types)

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self.types == other.types

    def __hash__(self) -> int:
        return hash(self.mangle())

    def _flatten_ir_types(self, builder, out: list) -> None:
        for type_ in self.types:
            type_._flatten_ir_types(builder, out)

    def _unflatten_ir(self, handles: list, cursor: int):
        values = []
        for type_ in self.types:
            value, cursor = type_._unflatten_ir(handles, cursor)
            values.append(value)
        return CLCPipelineContext(*values), cursor


@host_constructible
class CLCPipelineContext(tl.base_value):
    """What a producer and the consumers of stolen tiles share: per stage an empty and a full barrier, and a response."""

    def __init__(self, clc_mbars_empty, clc_mbars_full, clc_responses):
        self.clc_mbars_empty, self.clc_mbars_full = clc_mbars_empty, clc_mbars_full
        self.clc_responses = clc_responses
        self.type = _CLCPipelineContextType([part.type for part in self._parts])

    @property
    def _parts(self):
        return self.clc_mbars_empty, self.clc_mbars_full, self.clc_responses

    def _set_name(self, builder, name: str) -> None:
        for part, suffix in zip(self._parts, ("empty", "full", "responses"), strict=True):
            part._set_name(builder, f"{name}.{suffix}")

    def _flatten_ir(self, handles: list) -> None:
        for part in self._parts:
            part._flatten_ir(handles)


class tensor_descriptor_ptr_type(HandleType):
    """`num` slots of `size` bytes in global memory for tensor descriptors; `num == 0` is a single one."""

    def __init__(self, num, size=128):
        self.num, self.size = unwrap(num), unwrap(size)

    def to_ir(self, builder) -> ir.DescriptorSlots:
        return ir.DescriptorSlots(self.num)

    def value(self, handle) -> tensor_descriptor_ptr:
        return tensor_descriptor_ptr(handle, self.num, self.size)

    def mangle(self) -> str:
        return f"tensor_descriptor_ptr_n{self.num}_b{self.size}"

    def __str__(self) -> str:
        return f"tensor_descriptor_ptr<{f'x {self.num}' if self.num else 'single'}, {self.size} bytes each>"


class tensor_descriptor_ptr(HandleValue):
    """A handle to `num` descriptor slots of `descriptor_size` bytes; subscript with `slots[i]`. `num == 0` is a single one."""

    def __init__(self, handle, num, descriptor_size=128):
        super().__init__(handle)
        self.type = tensor_descriptor_ptr_type(num, descriptor_size)

    @word
    def __getitem__(self, idx, _semantic=None):
        """The slot `idx`, an int or integer scalar."""
        from .descriptors import slot_at
        return slot_at(self, idx, _semantic)

    @property
    def num(self) -> int:
        return self.type.num

    @property
    def descriptor_size(self) -> int:
        return self.type.size
