"""Kernels as a stranger writes them, with tiles of odd extents: as they are and padded on the simulator, compiled, and on a GPU."""

import re

import numpy as np
import pytest

import mimw
from mimw.compiler.passes.pad_ends import ENDS
from mimw.testing.machines import Gpu
from tests.compiling import stopping
from tests.extents.idle import spoil
from tests.kernels.everyday import arguments, elements, orders, products, rows, staged

CASES = {f"{room.__name__.rpartition('.')[2]}: {name}": case for room in (rows, elements, orders, products, staged)
         for name, case in room.CASES.items()}
CHIPS = ("sm_90a", "gfx942", "sm_100a")
IN_PIECES = [name for name in CASES if name.startswith("staged") or name == "products: persistent"]
NVIDIA = ["elements: assembly", "elements: by_pairs", *(name for name in CASES if name.startswith("staged"))]


def check(name, result, want):
    loose = 2e-2 if result.dtype != np.float32 or name.startswith(("products", "staged")) else 1e-4
    np.testing.assert_allclose(result.ravel().astype(np.float64), np.ravel(want).astype(np.float64), atol=loose, rtol=loose)


@pytest.mark.parametrize("name", CASES)
def test_results_are_numpys(name, monkeypatch):
    """Of the padded program, too; buffers in pieces the simulator knows only as the author has them."""
    for form in ("exact", "padded")[:1 if name in IN_PIECES else 2]:
        kernel, args, meta, want, result = arguments(CASES[name])
        if form == "padded":
            spoil(monkeypatch)
        kernel.__dict__.pop("_simulated_programs", None)
        mimw.simulate(kernel, (1, ), *args, target="sm_90a", **meta)
        kernel.__dict__.pop("_simulated_programs", None)
        check(name, result, want)


def test_idle_elements_would_be_seen(monkeypatch):
    """The programs above are padded with NaN: a sum that takes all that a tile holds is wrong."""
    kernel, args, meta, want, result = arguments(CASES["rows: softmax"])
    spoil(monkeypatch)
    monkeypatch.setitem(ENDS, "reduce", lambda padding, op: padding.again(op))
    kernel.__dict__.pop("_simulated_programs", None)
    mimw.simulate(kernel, (1, ), *args, target="sm_90a", **meta)
    kernel.__dict__.pop("_simulated_programs", None)
    assert np.isnan(result).any() and not np.isnan(want).any()


@pytest.mark.parametrize("name", CASES)
def test_it_compiles(name, request):
    """For one chip after the other; every third goes to assembly, all by `--long`; the others end at TTGIR."""
    kernel, args, meta, *_ = arguments(CASES[name])
    number = list(CASES).index(name)
    chip = "sm_90a" if name in NVIDIA else CHIPS[number % len(CHIPS)]
    last = ("ptx" if chip.startswith("sm") else "amdgcn") if number // 3 % 3 == 0 or request.config.getoption("long") else "ttgir"
    with stopping((last, )):
        compiled = mimw.compile(kernel, (1, ), *args, target=chip, **meta)
    assert kernel.__name__ in compiled.stages[last]


@pytest.mark.parametrize("name, zeros, chosen", [("split_depth", 2, 0), ("gemm", 2, 0), ("batched", 2, 0), ("dequantised", 1, 1)])
def test_what_a_load_brings_is_multiplied_where_it_lies(name, zeros, chosen):
    """Idle elements along K are zeros since the load says so, not by a choice behind it, which would need another buffer."""
    kernel, args, meta, *_ = arguments(products.CASES[name])
    with stopping(("ttgir", )):
        text = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta).ttgir
    assert text.count("arith.select") == chosen, "of weights that are computed no load could"
    assert len(re.findall(r"tt\.load %\w\S*, %\w\S*, %cst", text)) == zeros


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_agrees(name):
    kernel, args, meta, want, result = arguments(CASES[name])
    Gpu().launch(kernel, (1, ), *args, **meta)
    check(name, result, want)
