"""The smallest kernel for each TLX word that does something in a kernel: whether it compiles is whether the word works.

Parameters by name: `x` and `y` point at 4096 floats, `h` at as many half floats, `n` is an int, `d` a host descriptor of
half floats in blocks of 64 x 64, `i` points at signals and `w` at the table of this rank's world. A probe named `word__more` is a
second probe of `word`, shown as a row of its own.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.target import wanted

SIGNATURE = {"x": "*fp32", "y": "*fp32", "h": "*fp16", "i": "*i32", "w": "*i64", "n": "i32", "d": "tensordesc<fp16[64, 64]>"}
CLUSTERED = {}  # probe -> True: it is launched in clusters of two
WARPS = {"warp_pipeline_stage": 8}      # of probes that are right with one number of them only
PROBES = {}


def probe(function):
    PROBES[function.__name__] = mimw.jit(function)
    return PROBES[function.__name__]


def clustered(function):
    CLUSTERED[function.__name__] = True
    return probe(function)


def _same(word_names: str, function):
    """One probe stands for several words that only work together."""
    for name in word_names.split():
        PROBES[name] = function
        CLUSTERED[name] = function.__name__ in CLUSTERED


# ---- tasks -----------------------------------------------------------------------------------------------------------

@probe
def async_tasks(x, y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 1.0)
        with tlx.async_task(num_warps=4, registers=80, replicate=2):
            tl.store(y + tlx.async_task_replica_id(), 1.0)


_same("async_task async_task_replica_id", async_tasks)

# ---- memory ----------------------------------------------------------------------------------------------------------


@probe
def local_alloc(x, y):
    tile = tlx.local_view(tlx.local_alloc((64, ), tl.float32, 2), 0)
    at = tl.arange(0, 64)
    tlx.local_store(tile, tl.load(x + at))
    tl.store(y + at, tlx.local_load(tile))


_same("local_view local_load local_store", local_alloc)


@probe
def local_slice(x, y):
    tile = tlx.local_alloc((16, 64), tl.float32, 1)[0]
    at = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tile, tl.load(x + at))
    part = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 32)[None, :]
    tl.store(y + part, tlx.local_load(tlx.local_slice(tile, [0, 32], [16, 32])))


@probe
def local_trans(x, y):
    tile = tlx.local_alloc((32, 32), tl.float32, 1)[0]
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(tile, tl.load(x + at))
    tl.store(y + at, tlx.local_load(tlx.local_trans(tile)))


@probe
def local_gather(x, y):
    tile = tlx.local_alloc((64, ), tl.float32, 1)[0]
    at = tl.arange(0, 64)
    tlx.local_scatter(tile, tl.load(x + at), 63 - at, 0)
    tl.store(y + at, tlx.local_gather(tile, 63 - at, 0))


_same("local_scatter", local_gather)


@probe
def local_reinterpret(x, y):
    tile = tlx.local_alloc((64, ), tl.float32, 1)[0]
    at = tl.arange(0, 64)
    tlx.local_store(tile, tl.load(x + at))
    tl.store(y + at, tlx.local_load(tlx.local_reinterpret(tile, tl.int32)).to(tl.float32))


@probe
def local_reshape(x, y):
    tile = tlx.local_alloc((64, ), tl.float32, 1)[0]
    tlx.local_store(tile, tl.load(x + tl.arange(0, 64)))
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(y + at, tlx.local_load(tlx.local_reshape(tile, (8, 8))))


@probe
def zeros(y):
    tl.store(y + tl.arange(0, 64), tlx.zeros((64, ), tl.float32))


@probe
def storage_alias_spec(x, y):
    spec = tlx.storage_alias_spec()
    one = tlx.local_alloc((64, ), tl.float32, 1, reuse=spec)
    other = tlx.local_alloc((64, ), tl.int32, 1, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(one, other, group_type=tlx.reuse_group_type.distinct))
    at = tl.arange(0, 64)
    tlx.local_store(one[0], tl.load(x + at))
    tlx.local_store(other[0], at)
    tl.store(y + at, tlx.local_load(one[0]) + tlx.local_load(other[0]))


_same("reuse_group reuse_group_type storage_alias_spec_type_class", storage_alias_spec)


@probe
def local_alloc__tmem(x, y):
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(y + at, tlx.local_load(tile[0]))


@probe
def subslice(x, y):
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    half = tlx.subslice(tile[0], 32, 32)
    tlx.local_store(half, tl.load(x + at))
    tl.store(y + at, tlx.local_load(half))


@probe
def tmem_copy(x):
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    table = tlx.local_alloc((128, 4), tl.uint8, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    tlx.local_store(scales[0], tl.full((1, 1, 32, 16), 127, tl.uint8))
    tlx.tmem_copy(scales[0], table[0])
    tlx.tcgen05_commit(done[0])
    tlx.barrier_wait(done[0], 0)


# ---- other CTAs ------------------------------------------------------------------------------------------------------

@clustered
def remote_view(x):
    bars = tlx.alloc_barriers(1)
    tlx.remote_view(bars[0], 1)


@clustered
def remote_shmem_store(x, y):
    tile = tlx.local_alloc((64, ), tl.float32, 1)[0]
    at = tl.arange(0, 64)
    tlx.remote_shmem_store(tile, tl.load(x + at), tlx.cluster_cta_rank() ^ 1)
    tlx.cluster_barrier()
    tl.store(y + at, tlx.local_load(tile))


_same("cluster_barrier", remote_shmem_store)


# ---- several GPUs ----------------------------------------------------------------------------------------------------


@probe
def peer_pointer(x, y, w):
    there = tlx.peer_pointer(y, (tlx.world_rank(w) + 1) % tlx.world_size(w), w)
    tl.store(there, tl.load(x))


_same("world_rank world_size", peer_pointer)


@probe
def signal(i, w):
    tlx.signal(tlx.peer_pointer(i, 0, w))


@probe
def wait_signal(i, w):
    tlx.signal(i)
    tlx.wait_signal(i, 1)


@probe
def world_barrier(w):
    tlx.world_barrier(w)


@probe
def multimem_load_reduce(x, y, w):
    tl.store(y + tl.arange(0, 64), tlx.multimem_load_reduce(tlx.multicast_pointer(x, w) + tl.arange(0, 64)))


@probe
def multimem_store(x, w):
    tlx.multimem_store(tlx.multicast_pointer(x, w) + tl.arange(0, 64), 1.0)


@probe
def multimem_reduce(x, i, w):
    tlx.multimem_reduce(tlx.multicast_pointer(i, w), 1, sem="release")


_same("multicast_pointer", multimem_load_reduce)


@clustered
def async_remote_shmem_store(x, y):
    tile, bars = tlx.local_alloc((64, ), tl.float32, 1)[0], tlx.alloc_barriers(1)
    at = tl.arange(0, 64)
    tlx.barrier_expect_bytes(bars[0], 256)
    tlx.async_remote_shmem_store(tile, tl.load(x + at), tlx.cluster_cta_rank() ^ 1, bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(y + at, tlx.local_load(tile))


@clustered
def async_remote_shmem_copy(x, y):
    tiles, bars = tlx.local_alloc((64, ), tl.float32, 2), tlx.alloc_barriers(1)
    at = tl.arange(0, 64)
    tlx.local_store(tiles[0], tl.load(x + at))
    tlx.fence("async_shared")
    tlx.barrier_expect_bytes(bars[0], 256)
    tlx.async_remote_shmem_copy(tiles[1], tiles[0], tlx.cluster_cta_rank() ^ 1, bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(y + at, tlx.local_load(tiles[1]))


@probe
def cluster_cta_rank(y):
    tl.store(y, tlx.cluster_cta_rank() + tlx.cluster_size_1d() + 0.0)


_same("cluster_size_1d", cluster_cta_rank)

# ---- copies ----------------------------------------------------------------------------------------------------------


@probe
def async_load(x, y, n):
    tile = tlx.local_alloc((64, ), tl.float32, 1)[0]
    at = tl.arange(0, 64)
    token = tlx.async_load(x + at, tile, mask=at < n)
    tlx.async_load_wait_group(0, [tlx.async_load_commit_group([token])])
    tl.store(y + at, tlx.local_load(tile))


_same("async_load_commit_group async_load_wait_group", async_load)


@probe
def async_load__bulk(x, y):
    tile, bars = tlx.local_alloc((64, ), tl.float32, 1)[0], tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(bars[0], 256)
    tlx.async_load(x, tile, bulk=True, barrier=bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(y + tl.arange(0, 64), tlx.local_load(tile))


@probe
def async_store(x, y):
    tile = tlx.local_alloc((64, ), tl.float32, 1)[0]
    tlx.local_store(tile, tl.load(x + tl.arange(0, 64)))
    tlx.fence_async_shared()
    tlx.async_store(y, tile, 256)
    tlx.async_descriptor_store_wait(0)


@probe
def async_descriptor_load(d, h):
    tile, bars = tlx.local_alloc((64, 64), tl.float16, 1)[0], tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(bars[0], 8192)
    tlx.async_descriptor_load(d, tile, [0, 0], bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(h + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(tile))


@clustered
def async_descriptor_load__multicast(d, h):
    tile, bars = tlx.local_alloc((64, 64), tl.float16, 1)[0], tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(bars[0], 8192)
    if tlx.cluster_cta_rank() == 0:
        tlx.async_descriptor_load(d, tile, [0, 0], bars[0], multicast_targets=[0, 1])
    tlx.barrier_wait(bars[0], 0)
    tl.store(h + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(tile))


@probe
def async_descriptor_store(d):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)[0]
    tlx.local_store(tile, tl.zeros((64, 64), tl.float16))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(d, tile, [0, 0], store_reduce="add")
    tlx.async_descriptor_store_wait(0)


_same("async_descriptor_store_wait", async_descriptor_store)


@probe
def async_descriptor_gather(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [1, 64])
    tile, bars = tlx.local_alloc((16, 64), tl.float16, 1)[0], tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(bars[0], 2048)
    tlx.async_descriptor_gather(d, tile, 63 - tl.arange(0, 16), 0, bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(h + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(tile))


@probe
def async_descriptor_scatter(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [1, 64])
    tile = tlx.local_alloc((16, 64), tl.float16, 1)[0]
    tlx.local_store(tile, tl.zeros((16, 64), tl.float16))
    tlx.fence("async_shared")
    tlx.async_descriptor_scatter(d, tile, 63 - tl.arange(0, 16), 0)
    tlx.async_descriptor_store_wait(0)


@probe
def async_descriptor_prefetch_tensor(d):
    tlx.async_descriptor_prefetch_tensor(d, [0, 0])


@probe
def prefetch(x):
    tlx.prefetch(x + tl.arange(0, 64))


@probe
def prefetch__tensormap(d):
    tlx.prefetch(d, tensormap=True)


@probe
def make_tensor_descriptor(h, n):
    slots = tlx.allocate_tensor_descriptor(1)
    tlx.make_tensor_descriptor(slots[0], h, [n, 64], [64, 1], [16, 64])
    again = tlx.reinterpret_tensor_descriptor(slots[0], [16, 64], tl.float16)
    again.store([16, 0], again.load([0, 0]))


_same("allocate_tensor_descriptor reinterpret_tensor_descriptor", make_tensor_descriptor)

# ---- barriers --------------------------------------------------------------------------------------------------------


@probe
def alloc_barriers():
    bars = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)


_same("barrier_wait barrier_arrive", alloc_barriers)


@probe
def barrier_try_wait():
    bars = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bars[0])
    tl.device_print("there", tlx.barrier_try_wait(bars[0], 0))


@clustered
def barrier_arrive__remote():
    bars = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bars[0], 1, tlx.cluster_cta_rank() ^ 1)
    tlx.barrier_wait(bars[0], 0)


@probe
def alloc_warp_barrier():
    bars = tlx.alloc_warp_barrier(1, 4)
    tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)


@probe
def barrier_expect_bytes():
    bars = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(bars[0], 0)
    tlx.barrier_wait(bars[0], 0)


@probe
def named_barrier_wait():
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.named_barrier_wait(9, 256)
        with tlx.async_task(num_warps=4):
            tlx.named_barrier_arrive(9, 256)


_same("named_barrier_arrive", named_barrier_wait)


@probe
def fence_mbarrier_init_cluster():
    tlx.fence_mbarrier_init_cluster()


@probe
def fence():
    tlx.fence("gpu")
    tlx.fence("sys")


@probe
def fence_async_shared():
    tlx.fence_async_shared()


# ---- dots ------------------------------------------------------------------------------------------------------------

@probe
def async_dot(y):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1)[0], tlx.local_alloc((64, 64), tl.float16, 1)[0]
    tlx.local_store(a, tl.zeros((64, 64), tl.float16))
    tlx.local_store(b, tl.zeros((64, 64), tl.float16))
    c = tlx.async_dot_wait(0, tlx.async_dot(a, tlx.local_trans(b)))
    tl.store(y + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], c)


_same("async_dot_wait", async_dot)


@probe
def async_dot_scaled(y):
    a, b = tlx.local_alloc((128, 128), tl.float8e5, 1)[0], tlx.local_alloc((64, 128), tl.float8e5, 1)[0]
    acc = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)[0]
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)[0]
    tlx.local_store(a, tl.zeros((128, 128), tl.float8e5))
    tlx.local_store(b, tl.zeros((64, 128), tl.float8e5))
    tlx.local_store(scales, tl.full((1, 1, 32, 16), 127, tl.uint8))
    tlx.async_dot_scaled(a, tlx.local_trans(b), acc, scales, "e5m2", scales, "e5m2", use_acc=False)
    tl.store(y + tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :], tlx.local_load(tlx.subslice(acc, 0, 32)))


@probe
def async_dot__tmem(y):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1)[0], tlx.local_alloc((64, 64), tl.float16, 1)[0]
    acc, done = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)[0], tlx.alloc_barriers(1)
    tlx.local_store(a, tl.zeros((64, 64), tl.float16))
    tlx.local_store(b, tl.zeros((64, 64), tl.float16))
    tlx.async_dot(a, tlx.local_trans(b), acc, use_acc=False)
    tlx.tcgen05_commit(done[0])
    tlx.barrier_wait(done[0], 0)
    tl.store(y + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(acc))


_same("tcgen05_commit", async_dot__tmem)


@clustered
def async_dot__two_ctas(y):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1)[0], tlx.local_alloc((32, 64), tl.float16, 1)[0]
    acc, done = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)[0], tlx.alloc_barriers(1)
    tlx.local_store(a, tl.zeros((64, 64), tl.float16))
    tlx.local_store(b, tl.zeros((32, 64), tl.float16))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    tlx.async_dot(a, tlx.local_trans(b), acc, use_acc=False, force_async=True, two_ctas=True)
    tlx.tcgen05_commit(done[0], two_ctas=True)
    tlx.barrier_wait(done[0], 0)
    tl.store(y + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(acc))


@clustered
def async_dot_scaled__two_ctas(y):
    a, b = tlx.local_alloc((128, 128), tl.float8e5, 1)[0], tlx.local_alloc((64, 128), tl.float8e5, 1)[0]
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)[0]
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)[0]
    tlx.local_store(a, tl.zeros((128, 128), tl.float8e5))
    tlx.local_store(b, tl.zeros((64, 128), tl.float8e5))
    tlx.local_store(scales, tl.full((1, 1, 32, 16), 127, tl.uint8))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    tlx.async_dot_scaled(a, tlx.local_trans(b), acc, scales, "e5m2", scales, "e5m2", use_acc=False, two_ctas=True)
    tl.store(y + tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :], tlx.local_load(tlx.subslice(acc, 0, 32)))


@probe
def dot_scaled():
    a, scale = tl.zeros((128, 128), tl.float8e5), tl.zeros((128, 4), tl.uint8)
    tlx.dot_scaled(a, scale, "e5m2", a, scale, "e5m2")


# ---- cluster launch control ------------------------------------------------------------------------------------------

@probe
def clc_create_context(x):
    context = tlx.clc_create_context(1)
    tile, phase = tl.program_id(0), 0
    while tile != -1:
        tlx.clc_producer(context, phase ^ 1)
        tl.store(x + tile, 1.0)
        tile = tlx.clc_consumer(context, phase)
        phase ^= 1


@probe
def _alloc_clc_responses(x):
    response, full = tlx._alloc_clc_responses(1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 16)
    tlx._clc_issue(response[0], full[0])
    tlx.barrier_wait(full[0], 0)
    taken, _, _ = tlx._clc_query(response[0])
    tl.store(x, taken.to(tl.float32))


_same("clc_producer clc_consumer", clc_create_context)
_same("_clc_issue _clc_query", _alloc_clc_responses)

# ---- layouts ---------------------------------------------------------------------------------------------------------


@probe
def require_layout(x, y):
    lanes: tl.constexpr = tlx.layout(((32, 4), (1, )), ((1, 32), (0, )))
    at = tl.arange(0, 128)
    value = tlx.require_layout(tl.load(x + at), lanes)
    tlx.assert_same_layout(value, lanes)
    tl.store(y + at, tlx.release_layout(value))


_same("layout release_layout assert_same_layout", require_layout)


@probe
def dump_layout(x):
    tlx.dump_layout(tl.load(x + tl.arange(0, 64)))


def _shared(name: str, layout):

    def kernel(x, y, layout: tl.constexpr = layout):
        tile = tlx.local_alloc((32, 32), tl.float32, 1, layout=layout)[0]
        at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
        tlx.local_store(tile, tl.load(x + at))
        tl.store(y + at, tlx.local_load(tile))

    PROBES[name] = mimw.jit(kernel)


_shared("swizzled_layout", tlx.swizzled_layout(3, 2, 5))
_shared("swizzled_shared_layout_encoding", tlx.swizzled_shared_layout_encoding.make_default(2))
_shared("nv_mma_shared_layout_encoding", tlx.nv_mma_shared_layout_encoding.make_default([32, 32], tl.float32))
_shared("padded_shared_layout_encoding", tlx.padded_shared_layout_encoding.with_identity_for([(32, 4)], [32, 32]))
_shared("shared_linear_layout_encoding", tlx.shared_linear_layout_encoding(
    [(0, 1 << i) for i in range(5)] + [(1 << i, 0) for i in range(5)]))


@triton.constexpr_function
def _mfma():
    """The accumulator of the chip that is compiled for; of gfx950 for one that has none."""
    return tlx.amd_mfma_layout(3 if wanted().name == "gfx942" else 4, [16, 16], True, [2, 1])


@probe
def amd_mfma_layout(x):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(x + at, tlx.require_layout(tl.load(x + at), _mfma()))


@probe
def dot_operand_layout(x, h):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    left: tl.constexpr = tlx.dot_operand_layout(0, _mfma())
    right: tl.constexpr = tlx.dot_operand_layout(1, _mfma())
    tile = tl.load(h + at)
    tl.store(x + at, tl.dot(tlx.require_layout(tile, left), tlx.require_layout(tile, right)))


@probe
def require_amd_wmma_layout(x):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(x + at, tlx.require_amd_wmma_layout(tl.load(x + at)))


# ---- utilities -------------------------------------------------------------------------------------------------------


@probe
def thread_id(y):
    tl.store(y, tlx.thread_id(0) + 0.0)


@probe
def dtype_of(x, y):
    tl.store(y, tlx.size_of(tlx.dtype_of(x)) + 0.0)


_same("size_of", dtype_of)


@probe
def get_fp8_format_name(y):
    name: tl.constexpr = tlx.get_fp8_format_name(tl.float8e5)
    if name == "e5m2":
        tl.store(y, 1.0)


@probe
def clock64(y):
    tl.store(y, tlx.clock64().to(tl.float32))


@probe
def stoch_round(x):
    at = tl.arange(0, 64)
    tlx.stoch_round(tl.load(x + at), tl.float16, at.to(tl.uint32))


@probe
def vote_ballot_sync(y):
    tl.store(y, tlx.vote_ballot_sync(0xFFFFFFFF, tl.program_id(0) == 0).to(tl.float32))


@probe
def warp_redux(x):
    tlx.warp_redux(tl.load(x + tl.arange(0, 64)), "max")


@probe
def _to_mxfp8_block(x):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx._to_mxfp8_block(tl.load(x + at), 32, tl.float8e5)


# ---- AMD -------------------------------------------------------------------------------------------------------------

@probe
def buffer_load(x, y):
    at = tl.arange(0, 64)
    tlx.buffer_store(tlx.buffer_load(x, at), y, at)


@probe
def buffer_store(x, y):
    at = tl.arange(0, 64)
    tlx.buffer_store(tl.load(x + at), y, at)


@probe
def buffer_atomic_add(x):
    at = tl.arange(0, 64)
    tlx.buffer_atomic_add(x, at, at + 0.0)


@probe
def buffer_load_to_local(x):
    at = tl.arange(0, 64)
    tlx.buffer_load_to_local(tlx.local_alloc((64, ), tl.float32, 1)[0], x, at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)


@probe
def assume_uniform(x):
    tl.store(tlx.assume_uniform(x), 1.0)


@probe
def async_amd_descriptor_load(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [64, 64])
    tlx.async_amd_descriptor_load(d, tlx.local_alloc((64, 64), tl.float16, 1)[0], [0, 0])
    tlx.async_amd_descriptor_wait(0)


@probe
def async_amd_descriptor_load_fused(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [64, 64])
    tiles = tlx.local_alloc((64, 64), tl.float16, 2)
    tlx.async_amd_descriptor_load_fused(((d, tiles[0], 3), (d, tiles[1], 12)))
    tlx.async_amd_descriptor_wait(0)


@probe
def async_amd_descriptor_store(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [64, 64])
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(tile[0], tl.zeros((64, 64), tl.float16))
    tlx.async_amd_descriptor_store(d, tile[0], [0, 0])
    tlx.async_amd_descriptor_wait(0)


@probe
def async_amd_descriptor_wait():
    tlx.async_amd_descriptor_wait(0)


@probe
def amd_descriptor_prefetch_tensor(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [64, 64])
    tlx.amd_descriptor_prefetch_tensor(d, [0, 0])


@probe
def update_tensor_descriptor(h):
    d = tl.make_tensor_descriptor(h, [64, 64], [64, 1], [64, 64])
    tlx.update_tensor_descriptor(d, add_offsets=[0, 64])


@probe
def extract_slice(x):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :], tlx.extract_slice(tl.load(x + at), [16, 32], [8, 0]))


@probe
def rematerialized_range(y):
    tl.store(y + tlx.rematerialized_range(0, 64, "store"), 1.0)


@probe
def amd_register_resident(x):
    at = tl.arange(0, 1024)
    tl.store(x + at, tlx.amd_register_resident(tl.load(x + at)))


@probe
def amd_register_handoff(x):
    at = tl.arange(0, 1024)
    tl.store(x + at, tlx.amd_register_handoff(tl.load(x + at)))


@probe
def amd_scheduled_mfma(x, h):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    a = tl.load(h + at)
    tl.store(x + at, tlx.amd_scheduled_mfma(a, a, tl.zeros((32, 32), tl.float32), "transient"))


@probe
def amd_mfma_commit(x):
    at = tl.arange(0, 1024)
    tl.store(x + at, tlx.amd_mfma_commit(tl.load(x + at)))


@probe
def amd_sched_barrier():
    tlx.amd_sched_barrier(0)


@probe
def warp_pipeline_stage(x, n):
    for i in range(n):
        with tlx.warp_pipeline_stage("load", priority=1):
            tl.store(x + i, 1.0)
        with tlx.warp_pipeline_stage("store"):
            tl.store(x + n + i, 1.0)
