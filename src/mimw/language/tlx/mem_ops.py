"""The words that touch memory and barriers, in one module."""

from .alias import storage_alias_spec
from .barrier import (
    alloc_barriers,
    alloc_warp_barrier,
    barrier_arrive,
    barrier_expect_bytes,
    barrier_wait,
    fence,
    fence_async_shared,
)
from .bulk import async_store
from .cluster import (
    async_remote_shmem_copy,
    async_remote_shmem_store,
    cluster_barrier,
    fence_mbarrier_init_cluster,
    remote_shmem_store,
    remote_view,
)
from .copy import async_load, async_load_commit_group, async_load_wait_group
from .descriptors import allocate_tensor_descriptor, make_tensor_descriptor, reinterpret_tensor_descriptor
from .gather import local_gather, local_scatter, zeros
from .local_mem import local_alloc, local_load, local_slice, local_store, local_trans, local_view
from .named_barrier import named_barrier_arrive, named_barrier_wait
from .not_yet import (
    subslice,
    tmem_copy,
)
from .prefetch import async_descriptor_prefetch_tensor, prefetch
from .retype import local_reinterpret, local_reshape
from .tma import async_descriptor_load, async_descriptor_store, async_descriptor_store_wait

__all__ = [
    "alloc_barriers", "alloc_warp_barrier", "allocate_tensor_descriptor", "async_descriptor_load",
    "async_descriptor_prefetch_tensor", "async_descriptor_store", "async_descriptor_store_wait", "async_load",
    "async_load_commit_group", "async_load_wait_group", "async_remote_shmem_copy", "async_remote_shmem_store",
    "async_store", "barrier_arrive", "barrier_expect_bytes", "barrier_wait", "cluster_barrier", "fence",
    "fence_async_shared", "fence_mbarrier_init_cluster", "local_alloc", "local_gather", "local_load",
    "local_reinterpret", "local_reshape", "local_scatter", "local_slice", "local_store", "local_trans", "local_view",
    "make_tensor_descriptor", "named_barrier_arrive", "named_barrier_wait", "prefetch", "reinterpret_tensor_descriptor",
    "remote_shmem_store", "remote_view", "storage_alias_spec", "subslice", "tmem_copy", "zeros",
]
