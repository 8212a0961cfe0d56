"""Written by docs/support/stubs.py: the TLE's GPU words for type checkers and editors."""

from typing import Any

__all__ = [
    "alloc",
    "buffered_tensor",
    "buffered_tensor_type",
    "copy",
    "layout",
    "local_ptr",
    "memory_space",
    "nv_mma_shared_layout",
    "scope",
    "shared_layout",
    "smem",
    "storage_kind",
    "swizzled_shared_layout",
    "tensor_memory_layout",
    "tmem",
    "warp_specialize",
]

def alloc(
    shape: Any,
    dtype: Any,
    layout: Any = None,
    scope: Any = ...,
    init_value: Any = None,
    nv_mma_shared_layout: Any = True,
) -> Any: ...

class buffered_tensor:
    def __init__(self, handle: Any, type_: Any) -> None: ...
    @property
    def num(self) -> int: ...
    def __getitem__(self, idx: Any) -> Any: ...
    def at(self, idx: Any, semantic: Any) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def extract_tile(x: Any, index: Any, tile_shape: Any = None, shape: Any = None) -> Any: ...
    def insert_tile(x: Any, tile: Any, index: Any) -> Any: ...
    def slot(self, stage: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class buffered_tensor_type:
    num: Any
    def to_ir(self, builder: Any) -> Any: ...
    def value(self, handle: Any) -> Any: ...
    @property
    def single(self) -> tuple[str, str]: ...
    @property
    def indices(self) -> int: ...
    def one(self) -> buffered_tensor_type: ...
    def __init__(self, element_ty: Any, shape: Any, layout: Any = None, stored: Any = None) -> None: ...
    @property
    def scalar(self) -> Any: ...
    def with_(
        self,
        shape: Any = None,
        num: Any = None,
        layout: Any = None,
        order: Any = None,
    ) -> buffered_tensor_type: ...
    def mangle(self) -> str: ...
    def slot(self) -> buffered_tensor_type: ...
    def __getattr__(self, name: str) -> Any: ...

def copy(
    src: Any,
    dst: Any,
    shape: Any,
    offsets: Any = None,
    barrier: Any = None,
    stride: Any = None,
    extents: Any = None,
    eviction_policy: Any = '',
) -> None: ...

class layout:
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

def local_ptr(buffer: Any, indices: Any = None) -> Any: ...

def memory_space(input: Any, space: Any) -> Any: ...

class nv_mma_shared_layout:
    shape: Any
    order: Any
    elemType: Any
    numCTAsPerCGA: Any
    numCTASplit: Any
    numCTAOrder: Any
    fp4Padded: Any
    swizzled: Any
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> Any: ...
    def make_permute(self, dims: Any) -> Any: ...
    @classmethod
    def make_default(cls, shape: Any, dtype: Any, fp4Padded: Any = False) -> Any: ...
    def __init__(
        self,
        shape: Any,
        order: Any,
        elemType: Any,
        numCTAsPerCGA: Any,
        numCTASplit: Any,
        numCTAOrder: Any,
        fp4Padded: Any,
        swizzled: Any,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class scope:
    def __init__(self, name: Any, storage: Any) -> None: ...
    def on(self, target: Any = None) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class shared_layout:
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> Any: ...
    def make_permute(self, dims: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

smem: scope

class storage_kind:
    def __getattr__(self, name: str) -> Any: ...

class swizzled_shared_layout:
    vectorSize: Any
    perPhase: Any
    maxPhase: Any
    order: Any
    numCTAs: Any
    numCTAsPerCGA: Any
    numCTASplit: Any
    numCTAOrder: Any
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> Any: ...
    def make_permute(self, dims: Any) -> Any: ...
    @classmethod
    def make_default(cls, rank: Any) -> Any: ...
    def __init__(
        self,
        vectorSize: Any,
        perPhase: Any,
        maxPhase: Any,
        order: Any,
        numCTAs: Any,
        numCTAsPerCGA: Any,
        numCTASplit: Any,
        numCTAOrder: Any,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class tensor_memory_layout:
    blockM: Any
    blockN: Any
    colStride: Any
    CTASplitM: Any
    CTASplitN: Any
    def mangle(self) -> str: ...
    @classmethod
    def make_default(cls, shape: Any) -> Any: ...
    def __init__(
        self,
        blockM: Any,
        blockN: Any,
        colStride: Any,
        CTASplitM: Any,
        CTASplitN: Any,
        ctaMode: Any = ...,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

tmem: scope

def warp_specialize(functions_and_args: Any, worker_num_warps: Any, worker_num_regs: Any) -> Any: ...
