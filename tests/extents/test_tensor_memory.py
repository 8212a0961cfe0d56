"""tcgen05 products of any multiple of 16 columns: simulated, searched for races, compiled to one instruction that wide.

No chip with tensor memory could be had: what runs here are the simulator and ptxas."""

import re

import numpy as np
import pytest

import mimw
from tests.extents.refusals import check_refused
from tests.kernels import odd_tensor_memory, tensor_product

FORMS = {"176": {}, "48": dict(n=48), "240": dict(n=240), "bf16": dict(n=112, element="bf16"), "fp8": dict(bk=128, element="fp8"),
         "tf32": dict(n=48, bk=32, element="fp32"), "B (K, N)": dict(n=192, nk=False), "B (K, N) in stripes": dict(nk=False),
         "odd depth": dict(n=128, bk=48), "all odd": dict(n=80, bk=48)}
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


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("form", FORMS)
def test_one_instruction_has_the_authors_columns(form, chip):
    args, meta, *_ = odd_tensor_memory.launch(**FORMS[form])
    compiled = mimw.compile(odd_tensor_memory.product, (1, ), *args, target=chip, **meta)
    found = products(compiled.ptx)
    assert {told >> 17 & 63 for told in found} == {meta["N"] // 8} and {told >> 24 & 31 for told in found} == {128 // 16}
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
