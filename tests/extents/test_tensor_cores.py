"""wgmma of any multiple of 8 columns: simulated, searched for races, compiled to one instruction that wide, and on a GPU."""

import re

import numpy as np
import pytest

import mimw
from mimw import TensorDescriptor
from mimw.errors import MimwError
from mimw.testing.machines import Gpu, with_arrays
from tests.extents.refusals import check_refused
from tests.kernels import any_columns, portable

FORMS = {
    "176": {}, "8": dict(bn=8), "24": dict(bn=24), "112": dict(bn=112), "248": dict(bn=248), "bf16": dict(bn=160, element="bf16"),
    "fp8": dict(bn=160, bk=128, element="fp8"), "tf32": dict(bn=48, bk=32, element="fp32"),
    "64 bytes a row": dict(bn=80, bk=32), "two stripes of K": dict(bn=112, bk=128), "B (K, N)": dict(bn=192, nk=False),
    "B (K, N), stripes of 64 bytes": dict(bn=96, nk=False), "B (K, N), stripes of 32 bytes": dict(bn=80, nk=False),
    "int8": dict(bn=176, bk=64, element="int8"), "int8, 24 columns": dict(bn=24, bk=32, element="int8"),
    "odd depth": dict(bn=176, bk=48), "odd depth, fp8": dict(bn=72, bk=96, element="fp8"), "odd depth, int8": dict(
        bn=208, bk=160, element="int8"), "odd depth, columns of a power of two": dict(bn=64, bk=80),
    "two blocks of rows": dict(bm=128, bn=104), "two warpgroups": dict(bm=128, bn=176, warps=8),
    "two warpgroups, two blocks": dict(bm=256, bn=96, warps=8),
    "A (K, M)": dict(bm=128, bn=104, km=True), "A (K, M), two warpgroups": dict(bm=256, bn=96, warps=8, km=True, nk=False, bk=32),
}


def launched(form):
    return any_columns.launch(**FORMS[form])


@pytest.mark.parametrize("form", FORMS)
def test_the_simulator_gives_numpys_numbers(form):
    args, meta, c, want = launched(form)
    mimw.simulate(any_columns.multiply, (1, ), *args, target="sm_90a", **meta)
    np.testing.assert_allclose(c, want, atol=2e-2)


@pytest.mark.long(everywhere=True, but=[
    "8", "tf32", "B (K, N), stripes of 32 bytes", "int8, 24 columns", "odd depth, fp8", "odd depth, columns of a power of two",
    "A (K, M), two warpgroups"])
@pytest.mark.parametrize("form", FORMS)
def test_one_instruction_has_the_authors_columns(form):
    args, meta, *_ = launched(form)
    compiled = mimw.compile(any_columns.multiply, (1, ), *args, target="sm_90a", **meta)
    found = re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+)k\d+\S+ \{([^}]*)\}", compiled.ptx)
    assert {shape for shape, _ in found} == {f"m64n{meta['BN']}"} and {registers.count(",") + 1 for _, registers in found} == {
        meta["BN"] // 2}
    blocks = meta["BM"] // 64 // (meta["WARPS"] // 4)
    depth = {"fp8": 32, "int8": 32, "fp32": 8}.get(FORMS[form].get("element"), 16)
    assert len(found) == blocks * meta["BK"] // depth
    if blocks > 1:
        steps = {int(step) for step in re.findall(r"add\.s64 da, a0, (\d+)", compiled.ptx)}
        assert len(steps) == len(found), "each product has rows of A of its own"
    assert compiled.stack_bytes == 0
    box = (meta["BN"], meta["BK"]) if meta["NK"] else (meta["BK"], meta["BN"])
    assert f"tensordesc<{box[0]}x{box[1]}x" in compiled.ttgir


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
def test_the_gpu_agrees(form):
    args, meta, c, want = launched(form)
    Gpu().launch(any_columns.multiply, (1, ), *args, **meta)
    np.testing.assert_allclose(c, want, atol=2e-2)


def test_what_threads_store_is_fenced_before_assembly_reads_it():
    args, c, want = any_columns.launch_stored()
    mimw.simulate(any_columns.stored_operand, (1, ), *args, target="sm_90a", BN=176)
    np.testing.assert_allclose(c, want, atol=2e-2)
    compiled = mimw.compile(any_columns.stored_operand, (1, ), *args, target="sm_90a", BN=176)
    steps = re.findall(r"st\.shared|stmatrix|fence\.proxy\.async|bar\.sync|barrier\.sync|wgmma\.mma_async", compiled.ptx)
    before = steps[:steps.index("wgmma.mma_async")]
    last_store = max(at for at, step in enumerate(before) if step.startswith("st"))
    between = before[last_store + 1:]
    assert "fence.proxy.async" in between, steps
    assert any("sync" in step for step in between[between.index("fence.proxy.async"):]), "every thread's writes, then the product"


@pytest.mark.gpu
def test_the_gpu_reads_what_threads_stored():
    args, c, want = any_columns.launch_stored()
    Gpu().launch(any_columns.stored_operand, (1, ), *args, BN=176)
    np.testing.assert_allclose(c, want, atol=2e-2)


SLICES = [(240, 80), (96, 48), (192, 64)]


@pytest.mark.long(but=["96-48"], everywhere=True)
@pytest.mark.parametrize("bn, h", SLICES)
def test_a_slice_is_multiplied_where_it_lies(bn, h):
    """Two stripes of K, which are as far apart as all rows of the buffer are long, not those of the slice."""
    args, meta, c, want = any_columns.launch_slices(bn, h)
    mimw.simulate(any_columns.by_slices, (1, ), *args, target="sm_90a", **meta)
    np.testing.assert_allclose(c, want, atol=2e-2)
    ptx = mimw.compile(any_columns.by_slices, (1, ), *args, target="sm_90a", **meta).ptx
    steps = [int(step) for step in re.findall(r"add\.s64 db, b0, (\d+)", ptx)]
    assert steps == [stripe * bn * 128 // 16 + step for stripe in (0, 1) for step in (0, 2, 4, 6)]
    assert set(re.findall(r"wgmma\.mma_async\S+\.(m64n\d+)k16", ptx)) == {f"m64n{h}"}


@pytest.mark.gpu
@pytest.mark.parametrize("bn, h", SLICES)
def test_the_gpu_multiplies_slices(bn, h):
    args, meta, c, want = any_columns.launch_slices(bn, h)
    Gpu().launch(any_columns.by_slices, (1, ), *args, **meta)
    np.testing.assert_allclose(c, want, atol=2e-2)


def test_in_a_cluster_each_cta_loads_into_its_own_memory():
    """Triton hands assembly offsets, which in a cluster are addresses of the CTA with rank 0."""
    args, meta, *_ = launched("176")
    compiled = mimw.compile(any_columns.multiply, (2, ), *args, target="sm_90a", ctas_per_cga=(2, 1, 1), **meta)
    ptx = re.sub(r"\t\.loc.*\n", "", compiled.ptx)
    copies = re.findall(r"add\.u32 to, (\S+), 0;(?:\n.*){3}\[to\], \[map, .*\], \[(\S+)\];", ptx)
    assert len(copies) == 1, "A is a block of powers of two, which Triton copies"
    mapped = set(re.findall(r"mapa\.shared::cluster\.u32 (\S+),", ptx))
    assert set(copies[0]) <= mapped


def gemm(bn):
    """A producer and two consumers, whose tiles of C go through shared memory."""
    random = np.random.default_rng(0)
    a, b = ((random.standard_normal(shape) * 0.3).astype(np.float16) for shape in ((136, 136), (bn + 40, 136)))
    c = np.zeros((136, bn + 40), np.float16)
    blocks = (a, [64, 64]), (b, [bn, 64]), (c, [64, bn])
    args = *(TensorDescriptor.from_tensor(array, block) for array, block in blocks), 136
    return args, dict(BM=128, BN=bn, BK=64, STAGES=2, WGMMA=True), c, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.long(but=["112"], everywhere=True)
@pytest.mark.parametrize("bn", [112, 176, 240])
def test_tiles_of_c_go_in_stripes_through_shared_memory(bn):
    args, meta, c, want = gemm(bn)
    mimw.simulate(portable.producer_consumer_gemm, (2, 2), *args, target="sm_90a", **meta)
    np.testing.assert_allclose(c.astype(np.float32), want, atol=2e-2)
    compiled = mimw.compile(portable.producer_consumer_gemm, (2, 2), *args, target="sm_90a", **meta)
    stripes = compiled.ttgir.count("ttg.local_store")
    assert stripes == 2 * bn * 2 // 32 and compiled.ptx.count("stmatrix") == stripes, "two consumers, stripes of 32 bytes"
    assert not re.search(r"ldmatrix|shfl\.sync\.(bfly|up|down)|prmt", compiled.ptx), "no element changes its thread"
    ring, staging = 2 * (128 + bn) * 64 * 2, 128 * bn * 2
    assert ring + staging <= compiled.shared_bytes <= ring + staging + 2048, "a tile takes the bytes that it has"


def test_a_wait_left_out_is_found():
    args, meta, *_ = any_columns.launch()
    assert mimw.check(any_columns.multiply, (1, ), *args, target="sm_90a", **meta).ok
    with pytest.raises(MimwError, match="b\\b|race|before"):
        mimw.simulate(any_columns.multiply, (1, ), *args, target="sm_90a", **meta, WAITS=False)


REFUSED = {
    "more than 256 columns": (any_columns.accumulated, dict(BN=264), "between 8 and 256"),
    "columns of 4": (any_columns.accumulated, dict(BN=180), "multiple of 8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_there_is_not_yet_says_so_with_its_line(name):
    kernel, meta, said = REFUSED[name]
    check_refused(kernel, said, "any_columns.py", **meta)


def test_a_machine_takes_descriptors_of_such_blocks():
    """Triton's own class asks for powers of two, so what a test moves to a GPU is a descriptor of ours."""
    array = np.zeros((176, 64), np.float16)
    moved = with_arrays(TensorDescriptor.from_tensor(array, [176, 64]), lambda held: held)
    assert moved.block_shape == [176, 64] and moved.base.array is array
