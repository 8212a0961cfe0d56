"""What the cluster words become: PTX that ptxas takes; one thread an element, one arrival a task, all warps together."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.constraints.defaults import nvmma_shared
from mimw.compiler.lowering.hopper.boxes import boxes
from mimw.ir import Descriptor, Scalar
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels import clusters as kernels

PAIR = {"ctas_per_cga": (2, 1, 1)}
START = "barrier.cluster.wait.acquire.aligned;"


def compiled(kernel, signature, options=PAIR, **constants):
    result = compile_kernel(kernel, signature, constants, options=options)
    assert result.stages["cubin"]
    return result


def ptx(kernel, signature, options=PAIR, **constants):
    return compiled(kernel, signature, options, **constants).stages["ptx"]


def pointers(element, *names):
    return {name: f"*{element}" for name in names}


def test_ranks():
    text = ptx(kernels.ranks, pointers("i32", "y_ptr"))
    assert "%cluster_ctarank" in text
    assert "%cluster_nctarank" not in text, "a kernel is compiled for one shape of cluster"
    assert "barrier.cluster" not in text, "ranks alone touch no other CTA"


def test_remote_arrive():
    result = compiled(kernels.handshake, pointers("fp32", "x_ptr", "y_ptr", "scratch_ptr"), N=64, ROUNDS=9)
    assert result.stages["ttgir"].count("@on mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there], 1;") == 2
    assert result.stages["ttgir"].count("@on mapa.shared::cluster.u32 there") == 2
    text = result.stages["ptx"]
    start = text.index("fence.mbarrier_init.release.cluster")
    assert text.rindex("mbarrier.init") < start < text.index(START) < text.index("mbarrier.arrive.release.cluster")
    assert text.count(START) == 2, "at the start and at the end"


@pytest.mark.long(but=["i64-*", "fp16-*", "fp32-*"], everywhere=True)
@pytest.mark.parametrize("element, type_, shape, expected", [
    ("fp32", tl.float32, (1, 1), ["setp.lt.u32 on, R, 1;", "@on STORE.b32 [to+0], R"]),
    ("fp32", tl.float32, (64, 8), ["STORE.v4.b32 [to+0], {R, R, R, R}"]),
    ("fp16", tl.float16, (4, 1), ["setp.lt.u32 on, R, 2;", "prmt.b32 w0_2_0, R, R, 0x5410;",
                                  "@on STORE.b32 [to+0], w0_2_0"]),
    ("i8", tl.int8, (32, 128), ["STORE.v4.b32 [to+0], {w0_2_0, w0_2_1, w0_2_2, w0_2_3}",
                                "STORE.v4.b32 [to+2048], {w1_2_0, w1_2_1"]),
    ("i64", tl.int64, (32, 8), ["STORE.v2.b64 [to+0], {R, R}"]),
])
def test_stores(element, type_, shape, expected):
    constants = dict(D=type_, R=shape[0], C=shape[1])
    asynchronous = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
    for kernel, store, extra in ((kernels.swap, "st.shared::cluster", {}),
                                 (kernels.all_reduce, asynchronous, {"SIZE": 2, "ROUNDS": 2})):
        text = re.sub(r"%rd?\d+", "R", ptx(kernel, pointers(element, "x_ptr", "y_ptr"), **constants, **extra))
        for line in expected:
            assert line.replace("STORE", store) in text


def test_each_byte_is_stored_once():
    """Stores of all threads and rounds together are the tile: more would complete bytes that nobody expects."""
    for rows, columns, size, type_ in ((1, 1, 4, tl.float32), (32, 1, 4, tl.float32), (128, 64, 2, tl.float16),
                                       (4, 1, 1, tl.int8)):
        name = {4: "fp32", 2: "fp16", 1: "i8"}[size]
        text = ptx(kernels.all_reduce, pointers(name, "x_ptr", "y_ptr"), D=type_, R=rows, C=columns, SIZE=2, ROUNDS=1)
        block = text[text.index("st.async"):].split("// end inline asm")[0]
        stores = re.findall(r"st\.async[\w.:]*?bytes(\.v\d)?\.b(\d+) ", "st.async" + block.removeprefix("st.async"))
        threads = int((re.findall(r"setp\.lt\.u32 on, %r\d+, (\d+);", text) or [128])[0])
        assert threads * sum(int(vector[2:] or 1) * int(bits) // 8 for vector, bits in stores) == rows * columns * size


def test_copies_keep_the_layout_of_their_buffers():
    result = compiled(kernels.copy_swap, pointers("fp16", "x_ptr", "y_ptr"), D=tl.float16, R=64, C=64)
    assert "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to]" in result.stages["ptx"]
    assert result.stages["ttgir"].count("ttg.local_alloc") == 3


@pytest.mark.parametrize("rows, columns, by_columns, copies", [(64, 64, False, 1), (64, 256, True, 2)])
def test_multicast(rows, columns, by_columns, copies):
    block = [rows, columns // 2] if by_columns else [rows // 2, columns]
    signature = {"x_desc": f"tensordesc<fp16[{block[0]},{block[1]}]>", "y_ptr": "*fp16"}
    result = compiled(kernels.multicast, signature, R=rows, C=columns, COLUMNS=by_columns)
    text = result.stages["ptx"]
    copy = "@on cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    assert text.count(copy) == copies
    assert "mov.b64 map, multicast_param_0;" in text and (".L2::cache_hint" in text) == by_columns
    (meta, ) = result.metadata.tensordesc_meta
    assert meta["block_size"] == [block[0], min(block[1], 64)]


@pytest.mark.parametrize("shape, element, allocated, expected", [
    ((32, 64), "fp16", (32, 64), [(0, (0, 0))]),
    ((32, 128), "fp16", (32, 128), [(0, (0, 0)), (32 * 128, (0, 64))]),
    ((32, 128), "fp16", (64, 128), [(0, (0, 0)), (64 * 128, (0, 64))]),  # rows of a bigger tile
    ((512, 32), "fp32", (512, 32), [(0, (0, 0)), (256 * 128, (256, 0))]),
    ((2, 16, 64), "fp16", (2, 16, 64), [(0, (0, 0, 0))]),
    ((64, ), "fp32", (64, ), [(0, (0, ))]),
])
def test_boxes(shape, element, allocated, expected):
    type_ = Descriptor(Scalar(element), shape)
    assert list(boxes(type_, nvmma_shared(shape, type_.element), allocated)) == expected


def test_a_barrier_outside_of_tasks_is_a_region_of_all_warps():
    result = compiled(kernels.around_tasks, pointers("i32", "x_ptr", "y_ptr"), N=64)
    text = result.stages["ttgir"]
    assert result.metadata.num_warps == 8
    assert text.count("ttg.warp_specialize") == 1 + 4  # the author's; start, the author's two barriers, end
    assert text.count("partition0() num_warps(4)") == 4
    assert text.count("barrier.cluster.wait") == 2 * 4


def test_no_sync_is_added_without_other_ctas():
    @mimw.jit
    def kernel(y_ptr):
        tlx.fence_mbarrier_init_cluster()
        tlx.cluster_barrier()
        tl.store(y_ptr, 1)

    text = ptx(kernel, pointers("i32", "y_ptr"))
    assert text.count("barrier.cluster.arrive") == 1 and text.count("fence.mbarrier_init") == 1


def test_descriptors_that_control_flow_hands_on_are_multicast():
    @mimw.jit
    def kernel(x_ptr, n):
        desc = tl.make_tensor_descriptor(x_ptr, [64, 64], [64, 1], [64, 64])
        if n > 0:
            desc = tl.make_tensor_descriptor(x_ptr + n, [64, 64], [64, 1], [64, 64])
        tile = tlx.local_alloc((64, 64), tl.float16, 1)
        full = tlx.alloc_barriers(1)
        tlx.barrier_expect_bytes(full[0], 16384)
        tlx.async_descriptor_load(desc, tile[0], [0, 0], full[0], multicast_targets=[0, 1])
        tlx.barrier_wait(full[0], 0)

    text = ptx(kernel, pointers("fp16", "x_ptr") | {"n": "i32"})
    assert text.count("tensormap.replace.tile.global_address") == 2
    assert re.search(r"mov\.b64 map, %rd\d+;(.|\n)*multicast::cluster", text)
