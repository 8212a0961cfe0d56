"""Words that reach other CTAs of the cluster. Not offered yet: each checks what can be checked, then says so."""

from __future__ import annotations

import triton.language.core as tl

from ..core import not_yet, word, wrong
from .arguments import single_buffer
from .types import buffered_tensor, mbarrier


@word
def remote_view(bar, remote_cta_rank, _semantic=None) -> mbarrier:
    """The same barrier of the CTA with rank `remote_cta_rank`; not offered yet.

    not:       anything but an mbarrier: AssertionError
    """
    assert isinstance(bar, mbarrier), f"remote_view takes an mbarrier only, got {bar}"
    raise not_yet(_semantic, "remote_view")


@word
def remote_shmem_store(dst, src, remote_cta_rank, _semantic=None) -> None:
    """Store the tile `src` into the buffer `dst` of another CTA; not offered yet."""
    _tile_for("remote_shmem_store", dst, src, _semantic)
    raise not_yet(_semantic, "remote_shmem_store")


@word
def async_remote_shmem_store(dst, src, remote_cta_rank, barrier, _semantic=None) -> None:
    """Start storing the tile `src` into `dst` of another CTA, completing bytes on its `barrier`; not offered yet."""
    _tile_for("async_remote_shmem_store", dst, src, _semantic)
    raise not_yet(_semantic, "async_remote_shmem_store")


@word
def async_remote_shmem_copy(dst, src, remote_cta_rank, barrier, _semantic=None) -> None:
    """Start copying the buffer `src` into `dst` of another CTA, completing bytes on its `barrier`; not offered yet."""
    sizes = [_bytes(single_buffer("async_remote_shmem_copy", name, buffer, _semantic)) for name, buffer in
             (("dst", dst), ("src", src))]
    if sizes[0] != sizes[1] or sizes[0] % 16:
        raise wrong(_semantic, f"async_remote_shmem_copy: dst has {sizes[0]} bytes and src {sizes[1]}; both must be equal "
                    "and a multiple of 16")
    raise not_yet(_semantic, "async_remote_shmem_copy")


def _bytes(buffer: buffered_tensor) -> int:
    elements = 1
    for extent in buffer.shape:
        elements *= extent
    return elements * buffer.dtype.primitive_bitwidth // 8


def _tile_for(name: str, dst, src, semantic) -> None:
    dst = single_buffer(name, "dst", dst, semantic)
    if not isinstance(src, tl.tensor) or tuple(getattr(src.type, "shape", ())) != dst.shape or src.dtype != dst.dtype:
        raise wrong(semantic, f"{name}: `src` must be a block tensor of the shape and dtype of {dst}, got {src}")


@word
def cluster_barrier(_semantic=None) -> None:
    """Arrive and wait with all threads of all CTAs of the cluster; not offered yet."""
    raise not_yet(_semantic, "cluster_barrier")


@word
def fence_mbarrier_init_cluster(_semantic=None) -> None:
    """Make the initialisation of barriers visible to the cluster; not offered yet."""
    raise not_yet(_semantic, "fence_mbarrier_init_cluster")


@word
def cluster_cta_rank(_semantic=None) -> tl.tensor:
    """Linear rank of this CTA in its cluster, an i32 scalar; not offered yet."""
    raise not_yet(_semantic, "cluster_cta_rank")


@word
def cluster_size_1d(_semantic=None) -> tl.tensor:
    """Number of CTAs in the cluster, an i32 scalar; not offered yet."""
    raise not_yet(_semantic, "cluster_size_1d")
