"""`tl.dot_scaled` on tiles of odd extents: simulated as it is and padded, with NaN for what is idle, compiled, and on a GPU."""

import numpy as np
import pytest

import mimw
from mimw.testing.machines import Gpu
from tests.compiling import stopping
from tests.extents.idle import spoil
from tests.kernels import odd_scaled

FORMS = {"fp8": (48, 80, 96, "e4m3", "e4m3"), "fp8 and fp4": (80, 48, 160, "e5m2", "e2m1"), "fp4": (48, 96, 192, "e2m1", "e2m1"),
         "bf16": (24, 40, 96, "bf16", "e4m3"), "K alone": (64, 64, 96, "e4m3", "e5m2"), "rows alone": (80, 64, 64, "e4m3", "e4m3")}


@pytest.mark.parametrize("form", ["exact", "padded"])
@pytest.mark.parametrize("name", FORMS)
def test_the_simulator_gives_numpys_numbers(name, form, monkeypatch):
    if form == "padded":
        spoil(monkeypatch)
    args, meta, out, want = odd_scaled.launch(*FORMS[name])
    odd_scaled.product.__dict__.pop("_simulated_programs", None)
    mimw.simulate(odd_scaled.product, (1, ), *args, target="sm_90a", **meta)
    odd_scaled.product.__dict__.pop("_simulated_programs", None)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)


@pytest.mark.long(but=["fp8 and fp4", "rows alone", "bf16"], everywhere=True)
@pytest.mark.parametrize("name", FORMS)
def test_there_is_a_binary(name):
    args, meta, *_ = odd_scaled.launch(*FORMS[name])
    for chip in ("sm_90a", "sm_100a", ("gfx942", "gfx950")[len(name) % 2]):
        with stopping(("ttgir", )):
            compiled = mimw.compile(odd_scaled.product, (1, ), *args, target=chip, **meta)
        assert ("tc_gen5_mma_scaled" in compiled.ttgir) == (chip == "sm_100a" and name in ("fp8 and fp4", "rows alone"))


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORMS)
def test_the_gpu_agrees(name):
    args, meta, out, want = odd_scaled.launch(*FORMS[name])
    Gpu().launch(odd_scaled.product, (1, ), *args, **meta)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)
