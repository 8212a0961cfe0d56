"""Attention forward with blocks of 80, 160 and 176 keys, and heads of 96 as one tile: simulated, checked, compiled, on a GPU."""

import functools
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import mimw
from benchmarks.loops import loops
from mimw.kernels import attention, attention_varlen
from mimw.kernels.attention import Configuration
from mimw.kernels.attention.configs import value_dim
from tests.kernels.packed_sequences import expect, packed
from tests.kernels.test_attention_changes import compare, problem

KEYS_160, KEYS_176 = Configuration(bn=160), Configuration(bn=176, ahead=False)
TURNS_176 = Configuration(bn=176, ahead=False, ping_pong=True)
WHOLE = Configuration(bn=80, whole=True)
CASES = {
    "full, no multiple of keys": ((2, 2, 1, 200, 400, 64), {}, KEYS_176),
    "full, two blocks": ((1, 2, 2, 130, 352, 64), {}, KEYS_176),
    "fewer keys than a block": ((2, 2, 1, 70, 33, 64), {}, KEYS_160),
    "causal": ((2, 2, 1, 300, 370, 64), dict(causal=True), KEYS_160),
    "causal, in turns": ((1, 2, 1, 400, 400, 64), dict(causal=True), TURNS_176),
    "window": ((1, 2, 1, 300, 500, 64), dict(causal=True, window=(200, None)), KEYS_160),
    "all": ((1, 2, 1, 300, 300, 64), dict(causal=True, window=(190, None), softcap=2.0, sinks=1.0, slopes=1), KEYS_176),
    "heads of 128": ((1, 1, 1, 130, 400, 128), dict(causal=True), TURNS_176),
    "heads of 96 as one tile": ((1, 2, 1, 200, 300, 96), dict(causal=True), WHOLE),
    "heads of 192": ((1, 2, 1, 130, 250, 192, np.float16, 128), dict(causal=True), Configuration(bn=96)),
    "heads of 256": ((1, 1, 1, 130, 200, 256), {}, Configuration(bn=80, ahead=False)),
}


def launch(arrays, options, chosen, programs=2):
    return attention.arguments(*arrays, np.zeros(1, np.int32), programs, chosen=chosen, **options)


@pytest.mark.long(everywhere=["fewer keys than a block", "all", "heads of 96 as one tile", "heads of 256"])
@pytest.mark.parametrize("name", CASES)
def test_results(machine, name):
    """Two programs compute several tiles each, so that every slot is used again."""
    (*shape, dim), options, chosen = (CASES[name][0][:6], *CASES[name][1:])
    arrays, options = problem(*shape, dim, *CASES[name][0][6:], **options)
    grid, args, meta = launch(arrays, options, chosen)
    machine.launch(attention.kernel, grid, *args, **meta)
    compare(arrays, options)


@pytest.mark.long(but=["False-chosen0"], everywhere=True)
@pytest.mark.parametrize("causal, chosen", [(False, KEYS_176), (True, KEYS_160), (True, TURNS_176)])
def test_every_interleaving_is_right(causal, chosen):
    arrays, options = problem(2, 2, 1, 200, 330, causal=causal)
    grid, args, meta = launch(arrays, options, chosen)
    report = mimw.check(attention.kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)


@pytest.mark.long(everywhere=["q_lengths0-*"])
@pytest.mark.parametrize("q_lengths, k_lengths, chosen, shape", [
    ((70, 0, 300), (170, 5, 390), attention_varlen.Configuration(bn=160), (2, 1, 64)),
    ((70, 130), (100, 190), attention_varlen.Configuration(bn=176, ahead=False, whole=True), (2, 1, 96))])
def test_packed_sequences(machine, q_lengths, k_lengths, chosen, shape):
    arrays = packed(q_lengths, k_lengths, *shape)
    wanted, wanted_lse = expect(*arrays, causal=True)
    grid, args, meta = attention_varlen.arguments(*arrays, np.zeros(1, np.int32), 2, max(q_lengths), max(k_lengths), causal=True,
                                                  chosen=chosen)
    machine.launch(attention_varlen.kernel, grid, *args, **meta)
    np.testing.assert_allclose(arrays[3].astype(np.float64), wanted, rtol=0, atol=2e-3)
    np.testing.assert_allclose(arrays[4], wanted_lse, rtol=0, atol=1e-4)


def test_the_operator_takes_either_form_of_a_head(monkeypatch):
    """A launch gets as many tensors as it has descriptors and pointers, second descriptors of heads of two tiles among them."""
    torch = pytest.importorskip("torch")
    from mimw import ops
    from mimw.ops import heads_by_tma
    taken = []

    class Counted(heads_by_tma.Launch):
        def _filled(self, tensors):
            given = iter(tensors)
            made = super()._filled(given)
            assert next(given, None) is None
            return made

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, rows, 96, dtype=torch.float16) for rows in (70, 100, 100))
    want = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
    monkeypatch.setattr(heads_by_tma, "Launch", Counted)
    for scale, whole in ((96**-0.5, True), (None, False)):      # a plan each
        monkeypatch.setattr(attention, "configuration", lambda *_: taken.append(whole) or replace(WHOLE, whole=whole))
        np.testing.assert_allclose(ops.attention(q, k, v, scale=scale), want, atol=2e-3)
    assert taken == [True, False]


# ---- machine code --------------------------------------------------------------------------------------------------------


@functools.cache
def compiled(dim: int, causal: bool, chosen: Configuration | None = None):
    """The kernel of 8 heads of 4096 queries and keys."""
    shape = 1, 8, 4096
    q, k, v, o = (np.empty((*shape, width), ml_dtypes.bfloat16) for width in (dim, dim, value_dim(dim), value_dim(dim)))
    grid, args, meta = launch((q, k, v, o, np.empty(shape, np.float32)), dict(causal=causal), chosen, 132)
    return mimw.compile(attention.kernel, grid, *args, **meta, target="sm_90a")


@pytest.mark.long(shown_by="test_registers.py::test_what_the_loop_holds")       # 6 CPU seconds a form
@pytest.mark.parametrize("dim, causal", [(64, False), (96, True), (128, True), (192, False), (256, True)])
def test_no_exponential_of_the_library_waits_for_a_product(dim, causal):
    """Of a block's exponentials the share that lies between a product's issue and the wait for it: today all of them."""
    keys = attention.configuration(dim, causal).bn
    found = list(loops(compiled(dim, causal).sass))
    assert [loop.exponentials() for loop in found] == [(keys // 2 + 2, keys // 2 + 2)] * (len(found) or 1)


FORMS = {"176 keys in turns": (128, TURNS_176), "160 keys": (128, KEYS_160),
         "heads of 96 as one tile": (96, Configuration(bn=144, k_stages=3, v_stages=3, whole=True))}


@pytest.mark.long(shown_by="test_registers.py::test_what_the_loop_holds")
@pytest.mark.parametrize("name", FORMS)
def test_blocks_of_any_extent_cost_their_keys(name):
    """Loops of full attention: one product a step of either operand, exponentials of the author's columns, nothing spilled."""
    dim, chosen = FORMS[name]
    found = compiled(dim, False, chosen)
    assert found.stack_bytes == 0 and re.search(r"USETMAXREG\S* .*\b0xf0;", found.sass), "240 registers a thread of a consumer"
    for loop in loops(found.sass):
        assert loop.count(rf"HGMMA\.64x{chosen.bn}x16\S*") >= dim // 16 and loop.products == dim // 16 + chosen.bn // 16
        assert loop.exponentials() == (chosen.bn // 2 + 2, chosen.bn // 2 + 2)
        assert not loop.count("SHFL.IDX|STSM|LDSM|STS") and not loop.count("STL") and not loop.count("LDL")
