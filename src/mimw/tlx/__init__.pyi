"""Written by docs/support/stubs.py: the TLX words for type checkers and editors."""

import enum
from typing import Any

from . import inline_ptx_lib as inline_ptx_lib
from . import mem_ops as mem_ops
from . import mxfp8_utils as mxfp8_utils
from . import subtile_ops as subtile_ops
from . import types as types
from . import warp_ops as warp_ops
from . import warp_spec as warp_spec

__all__ = [
    "CLCPipelineContext",
    "DummyRegisterLayoutEncoding",
    "TMemCTAMode",
    "_alloc_clc_responses",
    "_clc_issue",
    "_clc_query",
    "_to_mxfp8_block",
    "alloc_barriers",
    "alloc_warp_barrier",
    "allocate_tensor_descriptor",
    "amd_descriptor_prefetch_tensor",
    "amd_mfma_commit",
    "amd_mfma_layout",
    "amd_register_handoff",
    "amd_register_resident",
    "amd_sched_barrier",
    "amd_scheduled_mfma",
    "assert_same_layout",
    "assume_uniform",
    "async_amd_descriptor_load",
    "async_amd_descriptor_load_fused",
    "async_amd_descriptor_store",
    "async_amd_descriptor_wait",
    "async_descriptor_gather",
    "async_descriptor_load",
    "async_descriptor_prefetch_tensor",
    "async_descriptor_scatter",
    "async_descriptor_store",
    "async_descriptor_store_wait",
    "async_dot",
    "async_dot_scaled",
    "async_dot_wait",
    "async_load",
    "async_load_commit_group",
    "async_load_wait_group",
    "async_remote_shmem_copy",
    "async_remote_shmem_store",
    "async_store",
    "async_task",
    "async_task_replica_id",
    "async_tasks",
    "async_token",
    "barrier_arrive",
    "barrier_expect_bytes",
    "barrier_try_wait",
    "barrier_wait",
    "buffer_atomic_add",
    "buffer_load",
    "buffer_load_to_local",
    "buffer_store",
    "buffered_tensor",
    "buffered_tensor_type",
    "clc_consumer",
    "clc_create_context",
    "clc_producer",
    "clc_response",
    "clc_response_type",
    "clock64",
    "cluster_barrier",
    "cluster_cta_rank",
    "cluster_size_1d",
    "dot_operand_layout",
    "dot_scaled",
    "dtype_of",
    "dump_layout",
    "extract_slice",
    "fence",
    "fence_async_shared",
    "fence_mbarrier_init_cluster",
    "get_fp8_format_name",
    "layout",
    "layout_encoding",
    "local_alloc",
    "local_gather",
    "local_load",
    "local_reinterpret",
    "local_reshape",
    "local_scatter",
    "local_slice",
    "local_store",
    "local_trans",
    "local_view",
    "make_tensor_descriptor",
    "mbarrier",
    "mbarrier_type",
    "multicast_pointer",
    "multimem_load_reduce",
    "multimem_reduce",
    "multimem_store",
    "named_barrier_arrive",
    "named_barrier_wait",
    "nv_mma_shared_layout_encoding",
    "padded_shared_layout_encoding",
    "peer_pointer",
    "prefetch",
    "reinterpret_tensor_descriptor",
    "release_layout",
    "rematerialized_range",
    "remote_shmem_store",
    "remote_view",
    "require_amd_wmma_layout",
    "require_layout",
    "reuse_group",
    "reuse_group_ir_type",
    "reuse_group_type",
    "shared_layout_encoding",
    "shared_linear_layout_encoding",
    "signal",
    "size_of",
    "stoch_round",
    "storage_alias_spec",
    "storage_alias_spec_type",
    "storage_alias_spec_type_class",
    "storage_kind",
    "subslice",
    "swizzled_layout",
    "swizzled_shared_layout_encoding",
    "tcgen05_commit",
    "tensor_descriptor_ptr",
    "tensor_descriptor_ptr_type",
    "tensor_memory_layout_encoding",
    "thread_id",
    "tmem_copy",
    "update_tensor_descriptor",
    "vote_ballot_sync",
    "wait_signal",
    "warp_pipeline_stage",
    "warp_redux",
    "world_barrier",
    "world_rank",
    "world_size",
    "zeros",
]

class CLCPipelineContext:
    def __init__(self, clc_mbars_empty: Any, clc_mbars_full: Any, clc_responses: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class DummyRegisterLayoutEncoding(layout_encoding):
    shape: Any
    element_type: Any
    def mangle(self) -> str: ...
    def __init__(self, shape: Any, element_type: Any, tmem_compatible: Any = False) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class TMemCTAMode(enum.Enum):
    DEFAULT = 0
    TwoCTA_LHS = 1
    TwoCTA_RHS = 2

def _alloc_clc_responses(num: Any) -> clc_response: ...

def _clc_issue(response: Any, barrier: Any) -> None: ...

def _clc_query(response: Any) -> Any: ...

def _to_mxfp8_block(x: Any, VEC_SIZE: Any, dtype: Any) -> Any: ...

def alloc_barriers(num_barriers: Any, arrive_count: Any = 1) -> mbarrier: ...

def alloc_warp_barrier(num_barriers: Any, num_warps: Any = 1, num_arrivals: Any = 1) -> mbarrier: ...

def allocate_tensor_descriptor(num: Any) -> tensor_descriptor_ptr: ...

def amd_descriptor_prefetch_tensor(desc: Any, offsets: Any, pred: Any = None, speculative: Any = False) -> None: ...

def amd_mfma_commit(value: Any, preserve: Any = None) -> Any: ...

class amd_mfma_layout(layout_encoding):
    version: Any
    instr_shape: Any
    transposed: Any
    warps_per_cta: Any
    def mangle(self) -> str: ...
    def to_ir(self) -> Any: ...
    def __init__(
        self,
        version: Any,
        instr_shape: Any,
        transposed: Any,
        warps_per_cta: Any,
        element_bitwidth: Any = 32,
        tiles_per_warp: Any = None,
        cga_layout: Any = None,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def amd_register_handoff(value: Any, register_class: Any = 'vgpr') -> Any: ...

def amd_register_resident(value: Any, register_class: Any = 'agpr', registers_per_group: Any = 1) -> Any: ...

def amd_sched_barrier(mask: Any = 0) -> None: ...

def amd_scheduled_mfma(
    a: Any,
    b: Any,
    acc: Any,
    accumulator_role: Any,
    resident_operand: Any = None,
    accumulator_register_class: Any = None,
    initialize: Any = False,
) -> Any: ...

def assert_same_layout(lhs: Any, rhs: Any) -> None: ...

def assume_uniform(value: Any) -> Any: ...

def async_amd_descriptor_load(
    desc: Any,
    result: Any,
    offsets: Any = None,
    pred: Any = None,
    clamp_bounds: Any = True,
) -> async_token: ...

def async_amd_descriptor_load_fused(members: Any, cache_modifier: Any = '') -> async_token: ...

def async_amd_descriptor_store(desc: Any, source: Any, offsets: Any = None, clamp_bounds: Any = True) -> None: ...

def async_amd_descriptor_wait(pendings: Any = 0, tokens: Any = None) -> async_token: ...

def async_descriptor_gather(
    desc: Any,
    result: Any,
    x_offsets: Any,
    y_offset: Any,
    barrier: Any,
    pred: Any = None,
) -> None: ...

def async_descriptor_load(
    desc: Any,
    result: Any,
    offsets: Any,
    barrier: Any,
    pred: Any = None,
    cache_modifier: Any = '',
    eviction_policy: Any = '',
    multicast_targets: Any = ...,
    two_ctas: Any = False,
) -> None: ...

def async_descriptor_prefetch_tensor(desc: Any, offsets: Any, pred: Any = None, eviction_policy: Any = '') -> None: ...

def async_descriptor_scatter(desc: Any, source: Any, x_offsets: Any, y_offset: Any) -> None: ...

def async_descriptor_store(
    desc: Any,
    source: Any,
    offsets: Any,
    eviction_policy: Any = '',
    store_reduce: Any = '',
) -> None: ...

def async_descriptor_store_wait(pendings: Any) -> None: ...

def async_dot(
    A: Any,
    B: Any,
    acc: Any = None,
    use_acc: Any = None,
    pred: Any = None,
    mBarriers: Any = ...,
    two_ctas: Any = False,
    force_async: Any = False,
    input_precision: Any = None,
    out_dtype: Any = ...,
    registers: Any = None,
) -> Any: ...

def async_dot_scaled(
    A: Any,
    B: Any,
    acc: Any,
    A_scale: Any,
    A_format: Any,
    B_scale: Any,
    B_format: Any,
    use_acc: Any = None,
    pred: Any = None,
    mBarriers: Any = ...,
    two_ctas: Any = False,
    force_async: Any = False,
    out_dtype: Any = ...,
) -> None: ...

def async_dot_wait(pendings: Any, inp: Any) -> Any: ...

def async_load(
    src: Any,
    result: Any,
    mask: Any = None,
    other: Any = None,
    cache_modifier: Any = '',
    eviction_policy: Any = '',
    is_volatile: Any = False,
    bulk: Any = False,
    bulk_size: Any = None,
    barrier: Any = None,
) -> async_token: ...

def async_load_commit_group(tokens: Any = ...) -> async_token: ...

def async_load_wait_group(pendings: Any, tokens: Any = ...) -> async_token: ...

def async_remote_shmem_copy(dst: Any, src: Any, remote_cta_rank: Any, barrier: Any) -> None: ...

def async_remote_shmem_store(dst: Any, src: Any, remote_cta_rank: Any, barrier: Any) -> None: ...

def async_store(dst_global_ptr: Any, src_smem: Any, size: Any, eviction_policy: Any = '') -> None: ...

class async_task:
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> None: ...
    def __init__(
        self,
        *args: Any,
        num_warps: Any = None,
        num_regs: Any = None,
        registers: Any = None,
        replicate: Any = 1,
        warp_group_start_id: Any = None,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def async_task_replica_id() -> Any: ...

class async_tasks:
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> None: ...
    def __init__(
        self,
        *args: Any,
        exclusive: Any = False,
        no_ending_cluster_sync: Any = False,
        mbarrier_try_wait_suspend_ns: Any = None,
        **kwargs: Any,
    ) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class async_token:
    def __init__(self, handle: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def barrier_arrive(bar: Any, arrive_count: Any = 1, remote_cta_rank: Any = None, pred: Any = None) -> None: ...

def barrier_expect_bytes(bar: Any, size: Any, pred: Any = None) -> None: ...

def barrier_try_wait(bar: Any, phase: Any) -> Any: ...

def barrier_wait(bar: Any, phase: Any, pred: Any = None) -> None: ...

def buffer_atomic_add(
    ptr: Any,
    offsets: Any,
    value: Any,
    mask: Any = None,
    sem: Any = None,
    scope: Any = None,
    contiguity: Any = 1,
) -> Any: ...

def buffer_load(
    ptr: Any,
    offsets: Any,
    mask: Any = None,
    other: Any = None,
    cache: Any = None,
    contiguity: Any = 1,
) -> Any: ...

def buffer_load_to_local(
    dest: Any,
    ptr: Any,
    offsets: Any,
    mask: Any = None,
    other: Any = None,
    cache_modifier: Any = '',
) -> async_token: ...

def buffer_store(stored_value: Any, ptr: Any, offsets: Any, mask: Any = None, cache: Any = None) -> None: ...

class buffered_tensor:
    def __init__(
        self,
        handle: Any,
        element_ty: Any,
        shape: Any,
        num: Any,
        storage: Any,
        layout: Any = None,
        *,
        order: Any = None,
    ) -> None: ...
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
    def __init__(
        self,
        element_ty: Any,
        shape: Any,
        num: Any,
        storage: Any,
        layout: Any = None,
        order: Any = None,
    ) -> None: ...
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
    def __getattr__(self, name: str) -> Any: ...

def clc_consumer(
    context: Any,
    p_consumer: Any = None,
    multi_ctas: Any = True,
    k: Any = 0,
    return_3d: Any = False,
) -> Any: ...

def clc_create_context(num_consumers: Any, num_stages: Any = 1) -> CLCPipelineContext: ...

def clc_producer(context: Any, p_producer: Any = None, multi_ctas: Any = True, k: Any = 0) -> None: ...

class clc_response:
    def __init__(self, handle: Any, num: Any, layout: Any = None, storage: Any = ...) -> None: ...
    @property
    def num(self) -> int: ...
    def __getitem__(self, idx: Any) -> Any: ...
    def at(self, idx: Any, semantic: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class clc_response_type:
    num: Any
    def to_ir(self, builder: Any) -> Any: ...
    def value(self, handle: Any) -> Any: ...
    @property
    def indices(self) -> int: ...
    def one(self) -> clc_response_type: ...
    def __init__(self, num: Any, layout: Any = None, storage: Any = ...) -> None: ...
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

def clock64() -> Any: ...

def cluster_barrier() -> None: ...

def cluster_cta_rank() -> Any: ...

def cluster_size_1d() -> Any: ...

class dot_operand_layout(layout_encoding):
    operand_index: Any
    parent: Any
    def mangle(self) -> str: ...
    def to_ir(self) -> Any: ...
    def __init__(self, operand_index: Any, parent: Any, k_width: Any = 8) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = ...,
    tiles_per_warp: Any = None,
) -> Any: ...

def dtype_of(v: Any) -> Any: ...

def dump_layout(x: Any) -> None: ...

def extract_slice(source: Any, shape: Any, offsets: Any) -> Any: ...

def fence(scope: Any) -> None: ...

def fence_async_shared() -> None: ...

def fence_mbarrier_init_cluster() -> None: ...

def get_fp8_format_name(dtype: Any) -> Any: ...

class layout(layout_encoding):
    shape: Any
    stride: Any
    def mangle(self) -> str: ...
    def __init__(self, shape: Any, stride: Any = None) -> None: ...
    def to_ir(self) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class layout_encoding:
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

def local_alloc(
    shape: Any,
    dtype: Any,
    num: Any,
    storage: Any = ...,
    reuse: Any = None,
    layout: Any = None,
) -> buffered_tensor: ...

def local_gather(src: Any, indices: Any, axis: Any, token: Any = None) -> Any: ...

def local_load(
    src: Any,
    token: Any = None,
    layout: Any = None,
    relaxed: Any = False,
    rematerialize_coordinates: Any = False,
    rematerialize_coordinates_group: Any = None,
) -> Any: ...

def local_reinterpret(src: Any, dtype: Any, shape: Any = None, layout: Any = None) -> buffered_tensor: ...

def local_reshape(buf: Any, shape: Any) -> buffered_tensor: ...

def local_scatter(dst: Any, src: Any, indices: Any, axis: Any, token: Any = None) -> None: ...

def local_slice(buf: Any, offset: Any, shape: Any) -> buffered_tensor: ...

def local_store(dst: Any, src: Any) -> None: ...

def local_trans(buf: Any, dims: Any = ...) -> buffered_tensor: ...

def local_view(buf: Any, idx: Any) -> Any: ...

def make_tensor_descriptor(
    desc_ptr: Any,
    base: Any,
    shape: Any,
    strides: Any,
    block_shape: Any,
    padding_option: Any = 'zero',
) -> Any: ...

class mbarrier:
    def __init__(
        self,
        handle: Any,
        num: Any,
        layout: Any = None,
        storage: Any = ...,
        is_warp_barrier: Any = False,
    ) -> None: ...
    @property
    def num(self) -> int: ...
    def __getitem__(self, idx: Any) -> Any: ...
    def at(self, idx: Any, semantic: Any) -> Any: ...
    @property
    def is_warp_barrier(self) -> bool: ...
    def __getattr__(self, name: str) -> Any: ...

class mbarrier_type:
    num: Any
    def to_ir(self, builder: Any) -> Any: ...
    def value(self, handle: Any) -> Any: ...
    @property
    def indices(self) -> int: ...
    def one(self) -> mbarrier_type: ...
    def __init__(self, num: Any, layout: Any, storage: Any, is_warp_barrier: Any = False) -> None: ...
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

def multicast_pointer(pointer: Any, world: Any) -> Any: ...

def multimem_load_reduce(
    pointer: Any,
    mask: Any = None,
    op: Any = 'add',
    sem: Any = 'relaxed',
    vector: Any = None,
) -> Any: ...

def multimem_reduce(
    pointer: Any,
    value: Any,
    mask: Any = None,
    op: Any = 'add',
    sem: Any = 'relaxed',
    vector: Any = None,
) -> None: ...

def multimem_store(pointer: Any, value: Any, mask: Any = None, sem: Any = 'relaxed', vector: Any = None) -> None: ...

def named_barrier_arrive(bar: Any, arrive_count: Any) -> None: ...

def named_barrier_wait(bar: Any, arrive_count: Any) -> None: ...

class nv_mma_shared_layout_encoding(shared_layout_encoding):
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
    def transposed(self, dims: Any) -> nv_mma_shared_layout_encoding: ...
    def make_permute(self, dims: Any) -> shared_layout_encoding: ...
    @classmethod
    def make_default(cls, shape: Any, dtype: Any, fp4Padded: Any = False) -> nv_mma_shared_layout_encoding: ...
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

class padded_shared_layout_encoding(shared_layout_encoding):
    interval_padding_pairs: Any
    offset_bases: Any
    block_bases: Any
    shape: Any
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> padded_shared_layout_encoding: ...
    def make_permute(self, dims: Any) -> shared_layout_encoding: ...
    @property
    def intervals(self) -> list[int]: ...
    @property
    def order(self) -> list[int]: ...
    @property
    def paddings(self) -> list[int]: ...
    @classmethod
    def with_identity_for(
        cls,
        interval_padding_pairs: Any,
        shape: Any,
        order: Any = None,
    ) -> padded_shared_layout_encoding: ...
    @classmethod
    def with_bases(
        cls,
        interval_padding_pairs: Any,
        offset_bases: Any,
        shape: Any,
        block_bases: Any = None,
    ) -> padded_shared_layout_encoding: ...
    def __init__(self, interval_padding_pairs: Any, offset_bases: Any, block_bases: Any, shape: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def peer_pointer(pointer: Any, rank: Any, world: Any) -> Any: ...

def prefetch(pointer: Any, level: Any = 'L2', mask: Any = None, tensormap: Any = False) -> None: ...

def reinterpret_tensor_descriptor(desc_ptr: Any, block_shape: Any, dtype: Any) -> Any: ...

def release_layout(x: Any) -> Any: ...

def rematerialized_range(start: Any, end: Any, identity: Any, placement: Any = None) -> Any: ...

def remote_shmem_store(dst: Any, src: Any, remote_cta_rank: Any) -> None: ...

def remote_view(bar: Any, remote_cta_rank: Any) -> mbarrier: ...

def require_amd_wmma_layout(
    src: Any,
    version: Any = 3,
    transposed: Any = True,
    warp_bases: Any = ...,
    reg_bases: Any = ...,
    instr_shape: Any = ...,
) -> Any: ...

def require_layout(x: Any, layout: Any, pin: Any = True, late_address_compute: Any = False) -> Any: ...

class reuse_group:
    def __init__(self, *elements: Any, group_type: Any = ..., group_size: Any = 1) -> None: ...
    @property
    def type(self) -> reuse_group_ir_type: ...
    def __getattr__(self, name: str) -> Any: ...

class reuse_group_ir_type:
    def of(self, values: Any) -> reuse_group: ...
    def __init__(self, types: Any, group_type: Any, group_size: Any) -> None: ...
    @property
    def parts(self) -> Any: ...
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

class reuse_group_type(enum.Enum):
    shared = 'shared'
    distinct = 'distinct'

class shared_layout_encoding(layout_encoding):
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> shared_layout_encoding: ...
    def make_permute(self, dims: Any) -> shared_layout_encoding: ...
    def __getattr__(self, name: str) -> Any: ...

class shared_linear_layout_encoding(shared_layout_encoding):
    offset_bases: Any
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> shared_linear_layout_encoding: ...
    def make_permute(self, dims: Any) -> shared_layout_encoding: ...
    def __init__(self, offset_bases: Any, block_bases: Any = None, alignment: Any = 16) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def signal(pointer: Any, value: Any = 1, op: Any = 'add', sem: Any = 'release', scope: Any = 'sys') -> None: ...

def size_of(dtype: Any) -> Any: ...

def stoch_round(src: Any, dst_ty: Any, rand_bits: Any) -> Any: ...

def storage_alias_spec(storage: Any = ..., buffer_size_bytes: Any = None) -> Any: ...

class storage_alias_spec_type:
    values: Any
    def to_ir(self, builder: Any) -> Any: ...
    def value(self, handle: Any) -> storage_alias_spec_type_class: ...
    def __init__(self, storage: Any, buffer_size_bytes: Any = None) -> None: ...
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

class storage_alias_spec_type_class:
    def __init__(self, handle: Any, storage: Any, buffer_size_bytes: Any = None) -> None: ...
    @property
    def handle(self) -> Any: ...
    @property
    def type(self) -> storage_alias_spec_type: ...
    @property
    def storage(self) -> storage_kind: ...
    @property
    def buffer_size_bytes(self) -> int | None: ...
    def set_buffer_overlap(self, group: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class storage_kind(enum.Enum):
    smem = 'smem'
    tmem = 'tmem'
    smemCluster = 'smemCluster'

def subslice(buf: Any, offset: Any, size: Any) -> buffered_tensor: ...

class swizzled_layout(shared_layout_encoding):
    bits: Any
    def mangle(self) -> str: ...
    def to_ir(self, shape: Any, bits: Any) -> Any: ...
    def transposed(self, dims: Any) -> swizzled_layout: ...
    def make_permute(self, dims: Any) -> swizzled_layout: ...
    @classmethod
    def make_default(cls, rank: Any = 2) -> swizzled_shared_layout_encoding: ...
    def __call__(self, coordinate: Any, shape: Any) -> int: ...
    @property
    def maxPhase(self) -> int: ...
    @property
    def vectorSize(self) -> int: ...
    def __init__(self, bits: Any, base: Any = 0, shift: Any = 0, order: Any = None) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class swizzled_shared_layout_encoding(shared_layout_encoding):
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
    def transposed(self, dims: Any) -> swizzled_shared_layout_encoding: ...
    def make_permute(self, dims: Any) -> swizzled_shared_layout_encoding: ...
    @classmethod
    def make_default(cls, rank: Any) -> swizzled_shared_layout_encoding: ...
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

def tcgen05_commit(mBarrier: Any, two_ctas: Any = False) -> None: ...

class tensor_descriptor_ptr:
    def __init__(self, handle: Any, num: Any, descriptor_size: Any = 128) -> None: ...
    @property
    def num(self) -> int: ...
    def __getitem__(self, idx: Any) -> Any: ...
    def at(self, idx: Any, semantic: Any) -> Any: ...
    @property
    def descriptor_size(self) -> int: ...
    def __getattr__(self, name: str) -> Any: ...

class tensor_descriptor_ptr_type:
    num: Any
    def to_ir(self, builder: Any) -> Any: ...
    def value(self, handle: Any) -> Any: ...
    @property
    def indices(self) -> int: ...
    def one(self) -> tensor_descriptor_ptr_type: ...
    def __init__(self, num: Any, size: Any = 128) -> None: ...
    def mangle(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

class tensor_memory_layout_encoding(layout_encoding):
    blockM: Any
    blockN: Any
    colStride: Any
    CTASplitM: Any
    CTASplitN: Any
    def mangle(self) -> str: ...
    @classmethod
    def make_default(cls, shape: Any) -> tensor_memory_layout_encoding: ...
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

def thread_id(axis: Any) -> Any: ...

def tmem_copy(src: Any, dst: Any) -> None: ...

def update_tensor_descriptor(
    desc: Any,
    add_offsets: Any = None,
    set_bounds: Any = None,
    pred: Any = None,
    clamp_bounds: Any = False,
) -> Any: ...

def vote_ballot_sync(mask: Any, pred: Any) -> Any: ...

def wait_signal(pointer: Any, value: Any, compare: Any = 'ge', sem: Any = 'acquire', scope: Any = 'sys') -> None: ...

class warp_pipeline_stage:
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> None: ...
    def __init__(self, label: Any = None, *, priority: Any = None) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def warp_redux(x: Any, op: Any) -> Any: ...

def world_barrier(world: Any) -> None: ...

def world_rank(world: Any) -> Any: ...

def world_size(world: Any) -> Any: ...

def zeros(shape: Any, dtype: Any, layout: Any = None) -> Any: ...
