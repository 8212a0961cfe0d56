"""What the reports say of kernels in clusters: copies to other CTAs count, and tasks are only those that the author wrote."""

import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.analysis import barrier_arrays, register_plan, task_resources
from mimw.report import barrier_graph, resource_table
from tests.kernels.multicast_ring import RIGHT, exchange, ring
from tests.passes.test_protocol_in_clusters import compiled


def tasks(program, target):
    return [(task.name, task.role, task.copies) for task in task_resources(program, target)]


@mimw.jit
def two_copies(x_desc, y_ptr):
    """A producer that starts a copy of its own and one to both CTAs, a consumer, and one store into the other CTA."""
    tiles = tlx.local_alloc((32, 64), tl.float16, 2)
    sums = tlx.local_alloc((32, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task(num_warps=1):
            tlx.barrier_expect_bytes(full[0], 3 * 32 * 64 * 2)
            tlx.async_descriptor_load(x_desc, tiles[0], [0, 0], full[0])
            tlx.async_descriptor_load(x_desc, tiles[1], [32, 0], full[0], multicast_targets=[0, 1])
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tile = tlx.local_load(tiles[0]) + tlx.local_load(tiles[1])
            tlx.remote_shmem_store(sums[0], tile, tlx.cluster_cta_rank() ^ 1)
    tlx.cluster_barrier()
    tl.store(y_ptr + tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(sums[0]))


def test_multicast_copies_and_stores_to_other_ctas_count():
    made = compiled(two_copies)
    assert tasks(made.program, made.target) == [("default", "compute", 1), ("task 1", "load", 2)]


def test_tasks_are_the_authors():
    """The compiler lets all warps meet in a region of its own; the hardware needs it, and nobody wrote it."""
    made = compiled(two_copies)
    regions = [op for op in made.program.walk() if op.name == "warp_specialize"]
    assert len(regions) == 4 and [bool(region.attrs.get("internal")) for region in regions] == [True, False, True, True]
    text = resource_table(made.program, made.target)
    assert "cluster barriers: 3, 2 of them put in by the compiler, where CTAs start and where they leave" in text
    assert "  cluster_barrier" not in text and len(register_plan(made.program, made.target)) == 2


def test_no_word_of_clusters_without_one():
    made = compiled(ring, 2, **RIGHT)
    assert "cluster barriers: 2, 2 of them" in resource_table(made.program, made.target)

    @mimw.jit
    def alone(y_ptr):
        tlx.local_store(tlx.local_alloc((32, ), tl.float16, 1)[0], tl.zeros((32, ), tl.float16))
        tl.store(y_ptr, 1.0)

    made = compiled(alone, 1)
    assert "cluster" not in resource_table(made.program, made.target)


def test_who_lets_whom_go_on_across_ctas():
    graph = barrier_graph(compiled(ring, **RIGHT).program)
    assert "task 1 --full[2]--> default (expect 8192 B + TMA to 2 CTAs)\n" in graph
    assert "default --empty[2]--> task 1 (to other CTAs, too, 2 arrivals a phase)\n" in graph
    graph = barrier_graph(compiled(exchange, FIRST=True, BYTES=128, COPY=True).program)
    assert "kernel --said[1]--> kernel (to other CTAs)\n" in graph
    assert "kernel --bar[1]--> kernel (expect 128 B + copies to other CTAs)\n" in graph


def test_barriers_of_clusters_do_not_escape():
    full, empty = barrier_arrays(compiled(ring, **RIGHT).program)
    assert not full.escapes and not empty.escapes
    assert {(one.kind, one.count, one.bytes, one.peers is None) for one in full.accesses} == {
        ("expect", 1, 8192, True), ("complete", 0, 4096, False), ("wait", 0, 0, True)}
    assert [one.peers is None for one in empty.of_kind("arrive")] == [True, False]
