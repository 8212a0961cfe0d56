"""Cluster words against the launch's clusters, and the cluster barriers that are put in."""

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError, ProtocolError
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir
from tests.kernels import clusters as kernels


def ir_of(kernel, cluster=(2, 1, 1), element="i32", **constants):
    signature = {name: f"*{element}" for name in kernel.arg_names if name.endswith("_ptr")}
    return to_ttgir(kernel, signature, constants, options={"ctas_per_cga": cluster}).program


def names(program):
    return [op.name for op in program.body.ops if op.name not in ("constant", "get_program_id")]


@mimw.jit
def touches(y_ptr, WORD: tl.constexpr, RANK: tl.constexpr):
    tiles = tlx.local_alloc((4, 4), tl.int32, 1)
    bar = tlx.alloc_barriers(1)
    if WORD == "remote_view":
        tlx.remote_view(bar, RANK)
    elif WORD == "remote_arrive":
        tlx.barrier_arrive(bar, 1, remote_cta_rank=RANK)
    elif WORD == "remote_store":
        tlx.remote_shmem_store(tiles[0], tl.zeros((4, 4), tl.int32), RANK)
    elif WORD == "async_remote_store":
        tlx.async_remote_shmem_store(tiles[0], tl.zeros((4, 4), tl.int32), RANK, bar)
    elif WORD == "async_remote_copy":
        tlx.async_remote_shmem_copy(tiles[0], tiles[0], RANK, bar)
    tl.store(y_ptr, 1)


WORDS = ["remote_view", "remote_arrive", "remote_store", "async_remote_store", "async_remote_copy"]


@pytest.mark.parametrize("cluster", [None, (1, 1, 1)])
@pytest.mark.parametrize("word", WORDS[:2])
def test_no_view_of_another_ctas_barrier(word, cluster):
    with pytest.raises(triton.CompilationError, match="Unexpected buffer remote view in 1cta mode") as caught:
        ir_of(touches, cluster, WORD=word, RANK=0)
    assert isinstance(caught.value.__cause__, KernelError) and caught.value.__cause__.sites


@pytest.mark.parametrize("cluster", [None, (1, 1, 1)])
@pytest.mark.parametrize("word", WORDS[2:])
def test_without_a_cluster_the_rank_is_0(word, cluster):
    assert "cluster_barrier" not in names(ir_of(touches, cluster, WORD=word, RANK=0))
    with pytest.raises(triton.CompilationError, match="rank 1; without a cluster there is rank 0 only, the CTA itself"):
        ir_of(touches, cluster, WORD=word, RANK=1)


@pytest.mark.parametrize("word", WORDS)
def test_ranks_in_and_out_of_the_cluster(word):
    ir_of(touches, (2, 2, 1), WORD=word, RANK=3)
    with pytest.raises(triton.CompilationError, match=r"rank 4; clusters of \(2, 2, 1\) have ranks 0 to 3"):
        ir_of(touches, (2, 2, 1), WORD=word, RANK=4)


def test_multicast_to_others_needs_a_cluster():
    with pytest.raises(triton.CompilationError, match="rank 1; without a cluster"):
        compile_kernel(kernels.multicast, {"x_desc": "tensordesc<fp16[32,64]>", "y_ptr": "*fp16"},
                       dict(R=64, C=64, COLUMNS=False))


def test_the_cluster_meets_at_the_start_and_at_the_end():
    found = names(ir_of(touches, WORD="remote_arrive", RANK=1))
    assert found[:4] == ["local_alloc", "alloc_barriers", "fence_mbarrier_init", "cluster_barrier"]
    assert found[-1] == "cluster_barrier" and found.count("cluster_barrier") == 2


def test_memory_is_made_before_the_cluster_meets():
    @mimw.jit
    def late(y_ptr, n):
        if tl.program_id(0) >= n:
            return
        tile = tlx.local_alloc((4, ), tl.int32, 1)
        bar = tlx.alloc_barriers(1)
        tlx.remote_shmem_store(tile[0], tl.zeros((4, ), tl.int32), 1)
        tlx.barrier_arrive(bar, 1, remote_cta_rank=1)
        tlx.barrier_wait(bar, 0)

    program = to_ttgir(late, {"y_ptr": "*i32", "n": "i32"}, options={"ctas_per_cga": (2, 1, 1)}).program
    assert names(program)[:4] == ["local_alloc", "alloc_barriers", "fence_mbarrier_init", "cluster_barrier"]
    assert names(program)[-1] == "cluster_barrier", "also for CTAs that return early"


def test_a_barrier_of_the_authors_at_the_end_is_enough():
    @mimw.jit
    def ends(y_ptr):
        tile = tlx.local_alloc((4, ), tl.int32, 1)
        tlx.remote_shmem_store(tile[0], tl.zeros((4, ), tl.int32), 1)
        tlx.cluster_barrier()

    assert names(ir_of(ends)).count("cluster_barrier") == 2


def test_outside_of_tasks_every_warp_comes():
    program = ir_of(kernels.around_tasks, N=64)
    regions = [op for op in program.body.ops if op.name == "warp_specialize"]
    added = [op for op in regions if all(block.ops[0].name == "cluster_barrier" for block in op.blocks)]
    assert len(regions) == 5 and len(added) == 4
    assert all([task.num_warps for task in op.attrs["tasks"]] == [4, 4] for op in added)
    assert "cluster_barrier" not in names(program)


@mimw.jit
def partly(y_ptr, CALLS: tl.constexpr, WARPS: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.cluster_barrier()
        with tlx.async_task(num_warps=WARPS):
            if CALLS:
                tlx.cluster_barrier()
            tl.store(y_ptr, 1)


def test_all_warps_of_a_region_come():
    ir_of(partly, CALLS=True, WARPS=4)
    with pytest.raises(triton.CompilationError, match="never opens.*never calls it") as caught:
        ir_of(partly, CALLS=False, WARPS=4)
    assert isinstance(caught.value.__cause__, ProtocolError)
    with pytest.raises(triton.CompilationError, match="it has 4, and the region's tasks have 1"):
        ir_of(partly, CALLS=True, WARPS=1)


@mimw.jit
def shares_storage(y_ptr):
    spec = tlx.storage_alias_spec()
    first = tlx.local_alloc((32, 32), tl.int32, 1, reuse=spec)
    tlx.local_alloc((32, 32), tl.int32, 1, reuse=spec)
    bar = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bar[0], 1, remote_cta_rank=0)
    tlx.local_store(first[0], tl.zeros((32, 32), tl.int32))
    tl.store(y_ptr, 1)


def test_storage_is_made_before_its_arrays():
    """Memory is made before the cluster meets: first what arrays lie in, then the arrays."""
    made = [name for name in names(ir_of(shares_storage)) if name in ("alias_storage", "local_alloc", "cluster_barrier")]
    assert made[:4] == ["alias_storage", "local_alloc", "local_alloc", "cluster_barrier"]
