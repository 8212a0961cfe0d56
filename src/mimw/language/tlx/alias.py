"""Storage shared by several buffer arrays: the spec that names the storage, and the tree of arrays that overlay.

Input: the arguments of a kernel's call. Output: ops `alias_storage` and `alias_overlap`. The storage planner gives
each array its place by these ops. For example:

    spec = tlx.storage_alias_spec(tlx.storage_kind.smem)      %spec = alias_storage space='smem' : storage
    a = tlx.local_alloc((64, ), tl.float16, 2, reuse=spec)    %a = local_alloc buffer<fp16[64] x 2>, %spec
    spec.set_buffer_overlap(tlx.reuse_group(a, b))            alias_overlap %spec, [%a, %b] tree=['shared', 1, [0, 1]]
"""

from __future__ import annotations

from enum import Enum

import triton.language.core as tl

from ... import ir
from ..composite import CompositeType
from ..core import HandleType, HandleValue, host_constructible, unwrap, word
from ..refuse import refuse
from .arguments import needs_tensor_memory
from .types import buffered_tensor, storage_kind

__all__ = [
    "reuse_group", "reuse_group_ir_type", "reuse_group_type", "storage_alias_spec", "storage_alias_spec_type",
    "storage_alias_spec_type_class",
]


def _check_storage(storage, buffer_size_bytes) -> None:
    if storage is storage_kind.smemCluster:
        refuse(ValueError, "smemCluster storage is not supported for storage_alias_spec")
    if storage not in (storage_kind.smem, storage_kind.tmem):
        refuse(ValueError, f"storage_alias_spec needs storage_kind.smem or storage_kind.tmem, got {storage!r}")
    if buffer_size_bytes is not None:
        if isinstance(buffer_size_bytes, bool) or not isinstance(buffer_size_bytes, int) or buffer_size_bytes <= 0:
            refuse(ValueError, f"buffer_size_bytes must be a positive constexpr int, got {buffer_size_bytes!r}")


class storage_alias_spec_type(HandleType):
    """The type of a spec; two are equal if storage and size are."""

    def __init__(self, storage, buffer_size_bytes=None):
        self.storage, self.buffer_size_bytes = unwrap(storage), unwrap(buffer_size_bytes)

    def to_ir(self, builder) -> ir.Storage:
        return ir.Storage(self.storage.value, self.buffer_size_bytes)

    def value(self, handle) -> storage_alias_spec_type_class:
        return storage_alias_spec_type_class(handle, self.storage, self.buffer_size_bytes)

    def mangle(self) -> str:
        return f"storage_alias_spec_{self.storage.value}" + (
            "" if self.buffer_size_bytes is None else f"_{self.buffer_size_bytes}")

    def __str__(self) -> str:
        size = "" if self.buffer_size_bytes is None else f", size={self.buffer_size_bytes}"
        return f"storage_alias_spec<{self.storage.value}{size}>"


@host_constructible
class storage_alias_spec_type_class(HandleValue):
    """A piece of memory that several `local_alloc(..., reuse=spec)` share. Its properties are read-only."""

    def __init__(self, handle, storage, buffer_size_bytes=None, *, _semantic=None):
        storage, buffer_size_bytes = unwrap(storage), unwrap(buffer_size_bytes)
        _check_storage(storage, buffer_size_bytes)
        self._handle, self._type = handle, storage_alias_spec_type(storage, buffer_size_bytes)

    @property
    def handle(self):
        return self._handle

    @property
    def type(self) -> storage_alias_spec_type:
        return self._type

    @property
    def storage(self) -> storage_kind:
        return self._type.storage

    @property
    def buffer_size_bytes(self) -> int | None:
        return self._type.buffer_size_bytes

    def __repr__(self) -> str:
        size = "" if self.buffer_size_bytes is None else f", buffer_size_bytes={self.buffer_size_bytes}"
        return f"storage_alias_spec(storage={self.storage.value}{size})"

    @word
    def set_buffer_overlap(self, group, _semantic=None):
        """Say which buffers of this storage overlay and which follow each other; once a spec.

        args:      group - a `reuse_group` whose leaves are arrays allocated with `reuse=` this spec, none twice
        errors:    TypeError for anything else; AliasError for a second call, a leaf of another storage or a leaf named twice
        not:       needed: without it every array starts at the start of the storage
        """
        if not isinstance(group, reuse_group):
            refuse(TypeError, f"set_buffer_overlap takes a reuse_group, got {type(group).__name__}")
        leaves: list = []
        tree = _tree(group, leaves)
        _semantic.builder.record("alias_overlap", self.handle, tuple(leaf.handle for leaf in leaves), tree=tree)


def _tree(element, leaves: list):
    """(kind, group size, children) of a group; a leaf is its index in `leaves`, which it is added to."""
    if isinstance(element, buffered_tensor):
        leaves.append(element)
        return len(leaves) - 1
    return element.group_type.value, element.group_size, tuple(_tree(child, leaves) for child in element.args)


@word
def storage_alias_spec(storage: tl.constexpr = storage_kind.smem, buffer_size_bytes: tl.constexpr = None, _semantic=None):
    """Name a piece of memory to be shared by several `local_alloc(..., reuse=spec)`.

    args:      storage           - smem or tmem, else ValueError
               buffer_size_bytes - (opt) limit of its size in bytes, > 0, else ValueError; by default as large as needed
    returns:   a `storage_alias_spec_type_class`; its `set_buffer_overlap` says which arrays overlay each other
    orders:    nothing: which task may use which buffer when is the kernel's business
    errors:    ValueError for another storage or size; for tmem AssertionError on chips without tensor memory
    example:   spec = tlx.storage_alias_spec()
               tile = tlx.local_alloc((64, 64), tl.float32, 2, reuse=spec)
    """
    _check_storage(storage, buffer_size_bytes)
    if storage is storage_kind.tmem:
        needs_tensor_memory("tmem", _semantic)
    type_ = storage_alias_spec_type(storage, buffer_size_bytes)
    return type_.value(_semantic.builder.record("alias_storage", storage.value, buffer_size_bytes).results[0])


@host_constructible
class reuse_group_type(Enum):
    """`shared`: the elements occupy the same bytes. `distinct`: they follow each other.

    example:   tlx.reuse_group(a, b, group_type=tlx.reuse_group_type.distinct)     # one behind the other
    """

    shared = "shared"
    distinct = "distinct"


class reuse_group_ir_type(CompositeType):
    """The type of a reuse group: the types of its elements, how they lie, and how many buffers make a slot."""

    def __init__(self, types, group_type, group_size):
        self.types, self.group_type, self.group_size = tuple(types), group_type, group_size

    @property
    def parts(self) -> tuple[tl.base_type, ...]:
        return self.types

    def of(self, values: list) -> reuse_group:
        return reuse_group(*values, group_type=self.group_type, group_size=self.group_size)

    def mangle(self) -> str:
        elements = "_".join(type_.mangle() for type_ in self.types)
        return f"reuse_group_{self.group_type.value}_{self.group_size}_{elements}_end"


@host_constructible
class reuse_group(tl.base_value):
    """A tree of buffers that says how they share a spec's storage.

    args:      elements   - one or more: arrays, which are the leaves, and further groups
               group_type - `shared` or `distinct`, how the elements lie to each other
               group_size - so many buffers of each array make one slot, an int > 0
    errors:    ValueError without elements and for another size; TypeError for an element or a type that is none
    example:   behind = tlx.reuse_group(scores, weights, group_type=tlx.reuse_group_type.distinct)
               spec.set_buffer_overlap(tlx.reuse_group(queries, behind))
    """

    def __init__(self, *elements, group_type=reuse_group_type.shared, group_size=1, _semantic=None):
        self.args, self.group_type, self.group_size = tuple(unwrap(elements)), unwrap(group_type), unwrap(group_size)
        if not self.args:
            refuse(ValueError, "reuse_group requires at least one element")
        for element in self.args:
            if not isinstance(element, (buffered_tensor, reuse_group)):
                refuse(TypeError, f"reuse_group elements must be buffered_tensor or reuse_group, got {type(element).__name__}")
        if not isinstance(self.group_type, reuse_group_type):
            refuse(TypeError, f"group_type must be a reuse_group_type, got {self.group_type!r}")
        if isinstance(self.group_size, bool) or not isinstance(self.group_size, int) or self.group_size < 1:
            refuse(ValueError, f"group_size must be a positive int, got {self.group_size!r}")

    @property
    def type(self) -> reuse_group_ir_type:
        return reuse_group_ir_type([element.type for element in self.args], self.group_type, self.group_size)

    def _set_name(self, builder, name: str) -> None:
        """The buffers of a group keep their own names."""

    def _flatten_ir(self, handles: list) -> None:
        for element in self.args:
            element._flatten_ir(handles)
