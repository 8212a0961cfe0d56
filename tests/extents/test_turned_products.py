"""Tiles of any extent that threads write for the tensor cores and for TMA, and rows that TMA writes for them."""

import numpy as np
import pytest

import mimw
from mimw.errors import MimwError
from mimw.testing.machines import Gpu
from tests.kernels import any_columns
from tests.kernels.turned_products import launch, turned


@pytest.mark.parametrize("n, fenced", [(80, True), (48, True), (112, False)])
def test_the_simulator_gives_numpys_numbers(n, fenced):
    args, meta, out, want = launch(n, fenced)
    mimw.simulate(turned, (1, ), *args, target="sm_90a", **meta)
    np.testing.assert_allclose(out, want, rtol=1e-2, atol=1e-1)


def test_a_wait_left_out_is_found():
    args, meta, *_ = launch()
    assert mimw.check(turned, (1, ), *args, target="sm_90a", **meta).ok
    with pytest.raises(MimwError, match="race|before|unwritten"):
        mimw.simulate(turned, (1, ), *args, target="sm_90a", **meta, WAITS=False)


@pytest.mark.gpu
@pytest.mark.parametrize("n, fenced", [(80, True), (48, True), (112, True), (80, False)])
def test_a_gpu_gives_numpys_numbers(n, fenced):
    args, meta, out, want = launch(n, fenced)
    Gpu().launch(turned, (1, ), *args, **meta)
    np.testing.assert_allclose(out, want, rtol=1e-2, atol=1e-1)


def test_a_tile_that_its_task_has_fenced_is_not_fenced_again():
    fences = {}
    for fenced in (True, False):
        args, meta, *_ = launch(80, fenced)
        fences[fenced] = mimw.compile(turned, (1, ), *args, target="sm_90a", **meta).ptx.count("fence.proxy.async")
    assert fences[True] == fences[False], "one for each tile, by the author or by the compiler"


def test_no_element_changes_its_thread_on_the_way_to_memory():
    args, meta, *_ = launch(80)
    compiled = mimw.compile(turned, (1, ), *args, target="sm_90a", **meta)
    assert compiled.ptx.count("wgmma.mma_async.sync.aligned.m64n80k16") == 2 * 4
    assert "shfl.sync.bfly" not in compiled.ptx and compiled.ttgir.count("ttg.local_store") == 2 * 5 + 5
    rows, tiles = 160 * 32 * 4, 64 * 64 * 2 + 2 * 64 * 80 * 2
    assert rows + tiles <= compiled.shared_bytes < rows + tiles + 12288, "either of them in powers of two would take 12 KB more"


def test_rows_that_are_loaded_by_pointers_can_be_stored():
    compiled = mimw.compile(any_columns.stored_rows, (1, ), np.zeros(1 << 16, np.float32), target="sm_90a", BN=176)
    assert "m64n176k16" in compiled.ptx and compiled.ptx.count("fence.proxy.async") == 1, "the compiler's, in front of the product"
