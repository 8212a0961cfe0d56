"""Kernels of `tl` alone with tiles of any extents: as the author has them, and padded, on the simulator; compiled; and on a GPU.

`padded` runs the program that layouts are chosen for, idle elements and all: what is seen of them would be seen here.
"""

import numpy as np
import pytest
from triton import CompilationError

import mimw
from mimw.compiler.pipeline import stages
from mimw.errors import KernelError
from mimw.ir.extents import odd_tiles
from mimw.testing.machines import Gpu
from tests.compiling import stopping
from tests.kernels import odd_extents, odd_orders
from tests.kernels.odd_extents import arguments
from tests.kernels.odd_extents_refused import REFUSED, leaves_some

CASES = {**odd_extents.CASES, **odd_orders.CASES}
NVIDIA, AMD = ("sm_90a", "sm_100a"), ("gfx942", "gfx950", "gfx1250")
PRECISE = {"products": 2e-2}


@pytest.fixture(params=["exact", "padded"])
def form(request, monkeypatch):
    if request.param == "padded":
        monkeypatch.setattr(stages, "FRONT", (*stages.FRONT, stages.pad))
    return request.param


def fresh(kernel):
    """The kernel without the programs that another form left."""
    kernel.__dict__.pop("_simulated_programs", None)
    return kernel


@pytest.mark.long(but=["exact-sm_90a-*", "padded-gfx950-*"], everywhere=True)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chip", ["sm_90a", "gfx950"])
def test_results_are_numpys(case, chip, form):
    kernel, args, meta, want, result = arguments(CASES[case])
    mimw.simulate(fresh(kernel), (1, ), *args, target=chip, **meta)
    fresh(kernel)
    np.testing.assert_allclose(result, want, atol=PRECISE.get(case, 1e-4), rtol=1e-4)


CHIPS = [chip for chips in zip((*NVIDIA, NVIDIA[0]), AMD) for chip in chips]


@pytest.mark.long(but=[f"{case}-{CHIPS[number % len(CHIPS)]}" for number, case in enumerate(CASES)], everywhere=True)
@pytest.mark.parametrize("chip", (*NVIDIA, *AMD))
@pytest.mark.parametrize("case", CASES)
def test_there_is_a_binary(case, chip):
    kernel, args, meta, *_ = arguments(CASES[case])
    with stopping():
        compiled = mimw.compile(kernel, (1, ), *args, target=chip, **meta)
    assert "256x256x" not in compiled.ttgir and odd_tiles(compiled.source.authored()), "the author's extents are in the program"


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_the_gpu_agrees(case):
    kernel, args, meta, want, result = arguments(CASES[case])
    Gpu().launch(kernel, (1, ), *args, **meta)
    np.testing.assert_allclose(result, want, atol=PRECISE.get(case, 1e-4), rtol=1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_elements_is_refused_with_its_line(name):
    kernel, args, meta, said = REFUSED[name]
    with pytest.raises(KernelError, match=said) as refused, stopping(("ttgir", )):
        mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert "Mend:" in str(refused.value) and "odd_extents_refused.py" in str(refused.value)


def test_tiles_that_leave_a_part_are_known_when_compiling():
    with pytest.raises(CompilationError, match=r"tiles \[8\] leave a part of \[44\]; the index must then be ints"):
        mimw.simulate(leaves_some, (1, ), np.zeros(64, np.float32), 7, N=44)


def test_the_price_is_said():
    kernel, args, meta, *_ = arguments(CASES["sums"])
    text = mimw.explain(kernel, (1, ), *args, target="sm_90a", **meta).sections["Tiles of other extents than powers of two"]
    tile = next(line for line in text.splitlines() if line.startswith("[12, 176]"))
    assert "in [16, 256]: 48% of its elements idle" in tile and "odd_extents.py:" in tile
    assert 1 - 12 * 176 / (16 * 256) == pytest.approx(0.484, abs=1e-3)


def test_a_binary_from_the_cache_has_the_padded_layouts():
    kernel, args, meta, *_ = arguments(CASES["sums"])
    for _ in range(2):
        with stopping(("ttgir", )):
            compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
        assert any(value.type.shape == (16, 256) for value in compiled.layouts.registers)
