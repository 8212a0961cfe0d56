"""The TLX surface: the public names of TLX, one file per family. Import it as `mimw.tlx`."""

from .alias import (
    reuse_group,
    reuse_group_ir_type,
    reuse_group_type,
    storage_alias_spec,
    storage_alias_spec_type,
    storage_alias_spec_type_class,
)
from .amd import (
    amd_sched_barrier,
    assume_uniform,
    buffer_atomic_add,
    buffer_load,
    buffer_load_to_local,
    buffer_store,
    extract_slice,
    warp_pipeline_stage,
)
from .async_task import async_task, async_task_replica_id, async_tasks
from .barrier import (
    alloc_barriers,
    alloc_warp_barrier,
    barrier_arrive,
    barrier_expect_bytes,
    barrier_wait,
    fence,
    fence_async_shared,
)
from .blackwell import async_dot_scaled, dot_scaled, stoch_round, tcgen05_commit, warp_redux
from .bulk import async_store
from .cluster import (
    async_remote_shmem_copy,
    async_remote_shmem_store,
    cluster_barrier,
    cluster_cta_rank,
    cluster_size_1d,
    fence_mbarrier_init_cluster,
    remote_shmem_store,
    remote_view,
)
from .copy import async_load, async_load_commit_group, async_load_wait_group
from .descriptors import allocate_tensor_descriptor, make_tensor_descriptor, reinterpret_tensor_descriptor
from .gather import local_gather, local_scatter, zeros
from .layouts import (
    TMemCTAMode,
    layout_encoding,
    nv_mma_shared_layout_encoding,
    padded_shared_layout_encoding,
    shared_layout_encoding,
    shared_linear_layout_encoding,
    swizzled_layout,
    swizzled_shared_layout_encoding,
    tensor_memory_layout_encoding,
)
from .local_mem import local_alloc, local_load, local_slice, local_store, local_trans, local_view
from .mma import async_dot, async_dot_wait
from .named_barrier import named_barrier_arrive, named_barrier_wait
from .not_yet import (
    _alloc_clc_responses,
    _clc_issue,
    _clc_query,
    _to_mxfp8_block,
    amd_mfma_commit,
    amd_register_handoff,
    amd_register_resident,
    amd_scheduled_mfma,
    clc_consumer,
    clc_create_context,
    clc_producer,
    rematerialized_range,
    require_amd_wmma_layout,
    subslice,
    tmem_copy,
)
from .prefetch import async_descriptor_prefetch_tensor, prefetch
from .register_layouts import DummyRegisterLayoutEncoding, amd_mfma_layout, dot_operand_layout, layout
from .require import assert_same_layout, dump_layout, release_layout, require_layout
from .retype import local_reinterpret, local_reshape
from .tdm import (
    amd_descriptor_prefetch_tensor,
    async_amd_descriptor_load,
    async_amd_descriptor_load_fused,
    async_amd_descriptor_store,
    async_amd_descriptor_wait,
    update_tensor_descriptor,
)
from .tma import async_descriptor_load, async_descriptor_store, async_descriptor_store_wait
from .types import (
    CLCPipelineContext,
    async_token,
    buffered_tensor,
    buffered_tensor_type,
    clc_response,
    clc_response_type,
    mbarrier,
    mbarrier_type,
    storage_kind,
    tensor_descriptor_ptr,
    tensor_descriptor_ptr_type,
)
from .utilities import clock64, dtype_of, get_fp8_format_name, size_of, thread_id, vote_ballot_sync

__all__ = [
    "_alloc_clc_responses", "_clc_issue", "_clc_query", "_to_mxfp8_block", "alloc_barriers", "alloc_warp_barrier",
    "allocate_tensor_descriptor", "amd_descriptor_prefetch_tensor", "amd_mfma_commit", "amd_mfma_layout",
    "amd_register_handoff", "amd_register_resident", "amd_sched_barrier", "amd_scheduled_mfma", "assert_same_layout",
    "assume_uniform", "async_amd_descriptor_load", "async_amd_descriptor_load_fused", "async_amd_descriptor_store",
    "async_amd_descriptor_wait", "async_descriptor_load", "async_descriptor_prefetch_tensor", "async_descriptor_store",
    "async_descriptor_store_wait", "async_dot", "async_dot_scaled", "async_dot_wait", "async_load",
    "async_load_commit_group", "async_load_wait_group", "async_remote_shmem_copy", "async_remote_shmem_store",
    "async_store", "async_task", "async_task_replica_id", "async_tasks", "async_token", "barrier_arrive",
    "barrier_expect_bytes", "barrier_wait", "buffer_atomic_add", "buffer_load", "buffer_load_to_local", "buffer_store",
    "buffered_tensor", "buffered_tensor_type", "clc_consumer", "clc_create_context", "clc_producer", "clc_response",
    "clc_response_type", "CLCPipelineContext", "clock64", "cluster_barrier", "cluster_cta_rank", "cluster_size_1d",
    "dot_operand_layout", "dot_scaled", "dtype_of", "DummyRegisterLayoutEncoding", "dump_layout", "extract_slice",
    "fence", "fence_async_shared", "fence_mbarrier_init_cluster", "get_fp8_format_name", "layout", "layout_encoding",
    "local_alloc", "local_gather", "local_load", "local_reinterpret", "local_reshape", "local_scatter", "local_slice",
    "local_store", "local_trans", "local_view", "make_tensor_descriptor", "mbarrier", "mbarrier_type",
    "named_barrier_arrive", "named_barrier_wait", "nv_mma_shared_layout_encoding", "padded_shared_layout_encoding",
    "prefetch", "reinterpret_tensor_descriptor", "release_layout", "rematerialized_range", "remote_shmem_store",
    "remote_view", "require_amd_wmma_layout", "require_layout", "reuse_group", "reuse_group_ir_type",
    "reuse_group_type", "shared_layout_encoding", "shared_linear_layout_encoding", "size_of", "stoch_round",
    "storage_alias_spec", "storage_alias_spec_type", "storage_alias_spec_type_class", "storage_kind", "subslice",
    "swizzled_layout", "swizzled_shared_layout_encoding", "tcgen05_commit", "tensor_descriptor_ptr",
    "tensor_descriptor_ptr_type", "tensor_memory_layout_encoding", "thread_id", "tmem_copy", "TMemCTAMode",
    "update_tensor_descriptor", "vote_ballot_sync", "warp_pipeline_stage", "warp_redux", "zeros",
]
