"""tcgen05 products of any multiple of 16 columns: simulated, searched for races, compiled to one instruction that wide.

No chip with tensor memory could be had: what runs here are the simulator and ptxas."""

import re

import numpy as np
import pytest

import mimw
from mimw.errors import KernelError
from tests.compiling import stopping
from tests.extents.refusals import check_refused
from tests.kernels import odd_tensor_memory, pair_gemm, tensor_product

FORMS = {"176": {}, "48": dict(n=48), "240": dict(n=240), "bf16": dict(n=112, element="bf16"), "fp8": dict(bk=128, element="fp8"),
         "tf32": dict(n=48, bk=32, element="fp32"), "B (K, N)": dict(n=192, nk=False), "B (K, N) in stripes": dict(nk=False),
         "odd depth": dict(n=128, bk=48), "all odd": dict(n=80, bk=48), "64 rows": dict(n=72, m=64),
         "64 rows, B (K, N)": dict(n=176, m=64, bk=48, nk=False)}
CHIPS = ("sm_100a", "sm_103a")


@pytest.mark.parametrize("form", FORMS)
def test_the_simulator_gives_numpys_numbers(form):
    args, meta, out, want = odd_tensor_memory.launch(**FORMS[form])
    assert mimw.check(odd_tensor_memory.product, (1, ), *args, seeds=1, target="sm_100a", **meta).ok
    mimw.simulate(odd_tensor_memory.product, (1, ), *args, target="sm_100a", **meta)
    np.testing.assert_array_equal(out, want)


def products(ptx: str) -> list[int]:
    """The descriptor of each instruction that multiplies."""
    return [int(told) for told in re.findall(r"tcgen05\.mma\.cta_group::1\.kind::\w+ \[\S+\], \S+, \S+, (\d+), ", ptx)]


# Other forms are a part of these, or the same by fewer columns.
@pytest.mark.long(but=["48-sm_100a", "240-sm_103a", "B (K, N) in stripes-sm_100a"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("form", FORMS)
def test_one_instruction_has_the_authors_columns(form, chip):
    args, meta, *_ = odd_tensor_memory.launch(**FORMS[form])
    compiled = mimw.compile(odd_tensor_memory.product, (1, ), *args, target=chip, **meta)
    found = products(compiled.ptx)
    assert {told >> 17 & 63 for told in found} == {meta["N"] // 8} and {told >> 24 & 31 for told in found} == {meta["M"] // 16}
    assert len(found) == meta["BK"] * {"fp8": 1, "tf32": 4}.get(form, 2) // 32, "an instruction for 32 bytes of K"
    assert {told >> 16 & 1 for told in found} == {int(not meta["NK"])}, "B lies along N"
    took = re.search(r"tcgen05\.alloc\S+ \[\S+\], (\d+)", compiled.ptx)
    assert int(took[1]) == 2 << (meta["N"] - 1).bit_length(), "two accumulators of a power of two of columns each"


def test_the_instruction_is_tritons_but_for_its_columns():
    kernel, grid, args, meta = tensor_product.tensor_product_case(n=128)
    theirs = mimw.compile(kernel, grid, *args, target="sm_100a", **meta).ptx
    (register, ) = set(re.findall(r"tcgen05\.mma\.cta_group::1\.kind::f16 \[[^]]+\], \S+, \S+, (\S+), ", theirs))
    told = int(re.search(rf"mov\.b32\s+{register}, (\d+);", theirs)[1])
    args, meta, *_ = odd_tensor_memory.launch(n=192, nk=False)
    (ours, ) = set(products(mimw.compile(odd_tensor_memory.product, (1, ), *args, target="sm_100a", **meta).ptx))
    assert told >> 17 & 63 == 128 // 8 and told & ~(63 << 17) == ours & ~(63 << 17)


@pytest.mark.long(but=["80-48"], everywhere=True)
@pytest.mark.parametrize("n, k", [(176, 64), (80, 48), (128, 80)])
def test_a_may_lie_in_tensor_memory(n, k):
    a, out = np.random.default_rng(n).integers(-3, 4, (128, k)).astype(np.float16), np.zeros((128, n), np.float32)
    sizes = dict(M=128, N=n, K=k)
    mimw.simulate(odd_tensor_memory.from_tensor_memory, (1, ), a, out, target="sm_100a", **sizes)
    np.testing.assert_array_equal(out, np.repeat(3 * a.astype(np.float32).sum(1, keepdims=True), n, 1))
    with stopping():
        ptx = mimw.compile(odd_tensor_memory.from_tensor_memory, (1, ), a, out, target="sm_100a", **sizes).ptx
    ptx = re.sub(r"\n\s*\.loc.*", "", ptx)
    found = re.findall(r"low, \S+, (\d+);\s+(?:setp\S+ adds, .*;\s+)?@leader tcgen05\.mma\S+ \[\S+\], \[low\], \S+, (\d+)", ptx)
    assert [int(column) for column, _ in found] == [8 * step for step in range(k // 16)], "16 numbers of fp16 in 8 columns"
    assert {int(told) >> 17 & 63 for _, told in found} == {n // 8}


@pytest.mark.long(but=["72-64"], everywhere=True)
@pytest.mark.parametrize("n, m", [(176, 128), (72, 64)])
def test_a_product_may_be_waited_for_at_once(n, m):
    args, meta, out, want = odd_tensor_memory.launch(n=n, m=m)
    assert mimw.check(odd_tensor_memory.waited_for, (1, ), *args, seeds=1, target="sm_100a", **meta).ok
    mimw.simulate(odd_tensor_memory.waited_for, (1, ), *args, target="sm_100a", **meta)
    np.testing.assert_array_equal(out, (want - (np.arange(n) < 16)) / 2)
    with stopping():
        ptx = mimw.compile(odd_tensor_memory.waited_for, (1, ), *args, target="sm_100a", **meta).ptx
    assert re.findall(r"tcgen05\.mma|tcgen05\.commit|mbarrier\.try_wait", ptx)[-3:] == [
        "tcgen05.mma", "tcgen05.commit", "mbarrier.try_wait"]
    assert len(products(ptx)) == 64 // 16


@pytest.mark.long(but=["96-48"], everywhere=True)
@pytest.mark.parametrize("n, bk", [(160, 64), (96, 48), (64, 48)])
def test_a_pair_of_ctas_has_the_authors_columns(n, bk):
    (kernel, grid, args, meta), want = pair_gemm.launch(m=256, n=n, k=2 * bk, bn=n, bk=bk)
    assert mimw.check(kernel, grid, *args, seeds=1, **meta).ok
    mimw.simulate(kernel, grid, *args, **meta)
    np.testing.assert_array_equal(args[2], want)
    with stopping():
        ptx = mimw.compile(kernel, grid, *args, **meta).ptx
    found = [int(told) for told in re.findall(r"tcgen05\.mma\.cta_group::2\.kind::f16 \[\S+\], \S+, \S+, (\d+), ", ptx)]
    assert {(told >> 17 & 63, told >> 24 & 31) for told in found} == {(n // 8, 256 // 16)} and len(found) == bk // 16


@pytest.mark.parametrize("bm, bn, said", [(64, 160, "give each CTA of a pair 128 rows"), (128, 176, "multiple of 32 columns")])
def test_what_a_pair_has_not(bm, bn, said):
    (kernel, grid, args, meta), _ = pair_gemm.launch(m=2 * bm, n=bn, k=64, bm=bm, bn=bn, bk=64)
    with pytest.raises(KernelError, match=said), stopping(("ttgir", )):
        mimw.compile(kernel, grid, *args, **meta)


@pytest.mark.long(but=["True-True-1"], everywhere=True)
@pytest.mark.parametrize("fenced, met, fences", [(False, True, 1), (True, True, 1), (True, False, 2)])
def test_what_threads_store_is_fenced(fenced, met, fences):
    """By the author, if all warps meet behind it, or by the compiler in front of the product."""
    out = np.zeros((128, 176), np.float32)
    mimw.simulate(odd_tensor_memory.written, (1, ), out, target="sm_100a", M=128, N=176, FENCED=fenced, MET=met)
    assert (out == 64 * 6).all()
    ptx = mimw.compile(odd_tensor_memory.written, (1, ), out, target="sm_100a", M=128, N=176, FENCED=fenced, MET=met).ptx
    steps = re.findall(r"st\.shared|stmatrix|fence\.proxy\.async|bar\.sync|tcgen05\.mma\.", ptx)
    between = steps[:steps.index("tcgen05.mma.")]
    between = between[max(at for at, step in enumerate(between) if step in ("st.shared", "stmatrix")):]
    assert between.count("fence.proxy.async") == fences, steps
    assert "bar.sync" in between[between.index("fence.proxy.async"):], "every thread's writes, then the product"


def test_a_wait_left_out_is_found():
    args, meta, *_ = odd_tensor_memory.launch()
    report = mimw.check(odd_tensor_memory.product, (1, ), *args, seeds=2, target="sm_100a", **meta, WAITS=False)
    assert not report.ok


@pytest.mark.parametrize("name", odd_tensor_memory.REFUSED)
def test_what_there_is_not_yet_says_so_with_its_line(name):
    kernel, said = odd_tensor_memory.REFUSED[name]
    check_refused(kernel, said, "odd_tensor_memory.py", "sm_100a", M=128, N=176)
