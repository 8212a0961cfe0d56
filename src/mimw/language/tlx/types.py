"""Values a kernel holds besides tiles and scalars, with their types: buffers, barriers, tokens and kin.

Input: a handle of an op's result, and the fields of the type. Output: the value that words take and give. For example:

    buffers = local_alloc((64, 64), tl.float16, 4)      of type buffered_tensor<fp16[64, 64] x 4 in smem>
    buffers[i]                                          one of the four: `num` is 0, the handle that of a `buffer_index`

Types decide how helpers are specialised (`mangle`) and which values may be carried through loops and branches
(equality). All values and types can be made in plain Python, for tests and as constants. A value is a handle and a
type; all else of a value is its type's.
"""

from __future__ import annotations

from enum import Enum

import triton.language.core as tl

from ... import ir
from ...errors import KernelError
from ...target import Space, Target, wanted
from ..composite import CompositeType
from ..core import HandleType, HandleValue, host_constructible, unwrap, word
from ..numbers import index_handle, is_int
from ..refuse import refuse
from .layouts import row_major

__all__ = [
    "CLCPipelineContext", "async_token", "buffered_tensor", "buffered_tensor_type", "clc_response", "clc_response_type",
    "mbarrier", "mbarrier_type", "storage_kind", "tensor_descriptor_ptr", "tensor_descriptor_ptr_type",
]


@host_constructible
class storage_kind(Enum):
    """The memory in which a buffer lies. `smemCluster` is another CTA's shared memory; only `remote_view` gives it.

    example:   acc = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    """

    smem = "smem"
    tmem = "tmem"
    smemCluster = "smemCluster"

    def on(self, target: str | Target | None = None) -> Space | None:
        """The space of a chip, with its bytes, alignment and paths; by default of MIMW_TARGET's chip. None if it has no such
        memory; TargetError for an unknown chip."""
        return wanted(target).lies_in(storage_kind.smem.value if self is storage_kind.smemCluster else self.value)


class ArrayType(HandleType):
    """`num` things of one kind; `num == 0` is a single one."""

    num: int
    index_op: str       # the op that gives one of them
    single: tuple[str, str] = ("", "")  # what is said of an index into a single one, and the mend

    @property
    def indices(self) -> int:
        """The number of indices."""
        return self.num

    def one(self) -> HandleType:
        """The type of one of them."""
        raise NotImplementedError(type(self).__name__)


class ArrayValue(HandleValue):
    """An array behind one handle; subscript with `array[i]`."""

    @property
    def num(self) -> int:
        return self.type.num

    @word
    def __getitem__(self, idx, _semantic=None):
        """The thing at `idx`, an int or an integer scalar.

        errors:    KernelError for an index that is no integer, for one that is known to be out of range, and for a barrier
                   that is no array
        not:       checked at run time: out of range is undefined (the simulator refuses it)
        """
        return self.at(idx, _semantic)

    def at(self, idx, semantic):
        """The element at an index; the subscript, for words."""
        if not self.type.num and self.type.single[0]:
            refuse(KernelError, self.type.single[0], mend=self.type.single[1])
        if is_int(idx) and not 0 <= idx < self.type.indices:
            refuse(KernelError, f"index {idx} is out of range: {self} has the indices 0 to {self.type.indices - 1}")
        index = index_handle("index", idx, semantic)
        return self.type.one().value(semantic.builder.record(self.type.index_op, self.handle, index).results[0])


class buffered_tensor_type(ArrayType):
    """`num` buffers of `shape` in one storage; `num == 0` is a single one.

    `order` is where the elements lie: `order[0]` is the fastest dimension. It follows the pinned layout if that has one, and
    is row-major otherwise; a transposed view has it permuted.
    """

    index_op = "buffer_index"

    def __init__(self, element_ty, shape, num, storage, layout=None, order=None):
        self.element_ty, self.num, self.storage, self.layout = unwrap(element_ty), unwrap(num), unwrap(storage), unwrap(layout)
        self.shape = tuple(unwrap(shape))
        self.order = tuple(order or getattr(self.layout, "order", None) or row_major(len(self.shape)))

    @property
    def scalar(self):
        return self.element_ty

    def to_ir(self, builder) -> ir.Buffer:
        return ir.Buffer(self.element_ty.to_ir(builder), self.shape, self.num, self.storage.value)

    @property
    def indices(self) -> int:
        return self.num or self.shape[0]

    @property
    def single(self) -> tuple[str, str]:
        """Rows of shared memory are buffers, too; lanes of tensor memory are not."""
        if self.storage is not storage_kind.tmem:
            return "", ""
        return (f"{self} is one buffer, and tensor memory has no buffers of one row",
                "index the array that local_alloc returned, once; tlx.subslice takes columns of a buffer")

    def one(self) -> buffered_tensor_type:
        """One buffer of an array; of a single buffer, which a slot may be, a step along its first dimension."""
        if self.num:
            return self.with_(num=0)
        order = tuple(axis - 1 for axis in self.order if axis)
        return buffered_tensor_type(self.element_ty, self.shape[1:] or (1, ), 0, self.storage, None, order)

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


class buffered_tensor(ArrayValue, of=buffered_tensor_type):
    """A handle to `num` equally shaped buffers; subscript with `buf[i]`. `num == 0` is a single buffer.

    example:   A = tlx.local_alloc((64, 64), tl.float16, 3)
               tlx.local_store(A[1], x)
    """

    def __init__(self, handle, element_ty, shape, num, storage, layout=None, *, order=None):
        super().__init__(handle, buffered_tensor_type(element_ty, shape, num, storage, layout, order))

    @property
    def dtype(self):
        return self.type.element_ty

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape


class mbarrier_type(ArrayType):
    """`num` mbarriers; `num == 0` is a single one. On a warp barrier every thread arrives for itself."""

    index_op = "barrier_index"
    single = "a single mbarrier cannot be indexed", "index the array that alloc_barriers returned, once"

    def __init__(self, num, layout, storage, is_warp_barrier=False):
        self.num, self.layout, self.storage = unwrap(num), unwrap(layout), unwrap(storage)
        self.is_warp_barrier = bool(unwrap(is_warp_barrier))

    def to_ir(self, builder) -> ir.Barrier:
        return ir.Barrier(self.num, self.is_warp_barrier)

    def one(self) -> mbarrier_type:
        return mbarrier_type(0, self.layout, self.storage, self.is_warp_barrier)

    def mangle(self) -> str:
        return f"mbarrier_n{self.num}_{self.storage.value}{'_warp' if self.is_warp_barrier else ''}"

    def __str__(self) -> str:
        warp = "warp " if self.is_warp_barrier else ""
        return f"mbarrier<{warp}{f'x {self.num}' if self.num else 'single'} in {self.storage.value}>"


class mbarrier(ArrayValue, of=mbarrier_type):
    """A handle to `num` barriers of 64 bits in shared memory; subscript with `bar[i]`.

    example:   full = tlx.alloc_barriers(3)
               tlx.barrier_wait(full[1], 0)
    """

    def __init__(self, handle, num, layout=None, storage=storage_kind.smem, is_warp_barrier=False):
        super().__init__(handle, mbarrier_type(num, layout, storage, is_warp_barrier))

    @property
    def is_warp_barrier(self) -> bool:
        return self.type.is_warp_barrier


class async_token_type(HandleType):
    """The type of every token."""

    def to_ir(self, builder) -> ir.Token:
        return ir.Token()

    def mangle(self) -> str:
        return "async_token"

    __str__ = mangle


class async_token(HandleValue, of=async_token_type):
    """The order between asynchronous copies, their commits and their waits; it has no value at run time.

    example:   token = tlx.async_load(x_ptr + offsets, tile[0])
               token = tlx.async_load_commit_group([token])
    """

    def __init__(self, handle):
        super().__init__(handle, async_token_type())


class clc_response_type(ArrayType):
    """`num` answers of 16 bytes to cluster launch requests; `num == 0` is a single one."""

    index_op = "buffer_index"
    single = "a single clc_response cannot be indexed", "index the array that _alloc_clc_responses returned, once"

    def __init__(self, num, layout=None, storage=storage_kind.smem):
        self.num, self.layout, self.storage = unwrap(num), unwrap(layout), unwrap(storage)

    def to_ir(self, builder) -> ir.Buffer:
        return ir.Buffer(ir.I64, (2, ), self.num)

    def one(self) -> clc_response_type:
        return clc_response_type(0, self.layout, self.storage)

    def mangle(self) -> str:
        return f"clc_response_n{self.num}_{self.storage.value}"

    def __str__(self) -> str:
        return f"clc_response<{f'x {self.num}' if self.num else 'single'}>"


class clc_response(ArrayValue, of=clc_response_type):
    """A handle to answers to cluster launch requests; subscript with `responses[i]`.

    example:   responses = tlx._alloc_clc_responses(2)
               tlx._clc_query(responses[1])
    """

    def __init__(self, handle, num, layout=None, storage=storage_kind.smem):
        super().__init__(handle, clc_response_type(num, layout, storage))


class _CLCPipelineContextType(CompositeType):

    def __init__(self, parts):
        self.parts = tuple(parts)

    def of(self, values: list) -> CLCPipelineContext:
        return CLCPipelineContext(*values)

    def mangle(self) -> str:
        return "clc_context_" + "_".join(part.mangle() for part in self.parts)


@host_constructible
class CLCPipelineContext(tl.base_value):
    """The shared state of producer and consumers of stolen tiles: per stage an empty and a full barrier, and a response.

    example:   context = tlx.clc_create_context(num_consumers=1)
    """

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


class tensor_descriptor_ptr_type(ArrayType):
    """`num` slots of `size` bytes in global memory for tensor descriptors; `num == 0` is a single one."""

    index_op = "descriptor_slot"
    single = "a single descriptor slot cannot be indexed", "index what allocate_tensor_descriptor gave, once"

    def __init__(self, num, size=128):
        self.num, self.size = unwrap(num), unwrap(size)

    def to_ir(self, builder) -> ir.DescriptorSlots:
        return ir.DescriptorSlots(self.num)

    def one(self) -> tensor_descriptor_ptr_type:
        return tensor_descriptor_ptr_type(0, self.size)

    def mangle(self) -> str:
        return f"tensor_descriptor_ptr_n{self.num}_b{self.size}"

    def __str__(self) -> str:
        return f"tensor_descriptor_ptr<{f'x {self.num}' if self.num else 'single'}, {self.size} bytes each>"


class tensor_descriptor_ptr(ArrayValue, of=tensor_descriptor_ptr_type):
    """A handle to `num` descriptor slots of `descriptor_size` bytes; subscript with `slots[i]`. `num == 0` is a single one.

    example:   slots = tlx.allocate_tensor_descriptor(2)
               tlx.make_tensor_descriptor(slots[1], x_ptr, [M, N], [N, 1], [64, 64])
    """

    def __init__(self, handle, num, descriptor_size=128):
        super().__init__(handle, tensor_descriptor_ptr_type(num, descriptor_size))

    @property
    def descriptor_size(self) -> int:
        return self.type.size
