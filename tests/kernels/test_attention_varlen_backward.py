"""Gradients of attention on packed sequences: lengths of all kinds, each with its own mask; rows in no sequence get 0, unseen."""

import numpy as np
import pytest

import mimw
from mimw.kernels import attention_varlen_backward as backward
from mimw.kernels.attention_backward import Configuration
from mimw.testing.machines import Gpu
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

from .packed_sequences import BEHIND, packed
from .test_attention_backward import reference

ALLOWED = 2e-3      # of ||x - reference|| / ||reference||, fp16


def problem(q_lengths, k_lengths, heads=2, kv_heads=1, dim=64, value_dim=None, **options):
    """(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, the gradients wanted in fp64)."""
    q, k, v, o, lse, cu_q, cu_k = packed(q_lengths, k_lengths, heads, kv_heads, dim, value_dim)
    do = np.random.default_rng(1).standard_normal(o.shape).astype(q.dtype)
    do[-BEHIND:] = np.nan
    wanted = [np.zeros(x.shape) for x in (q, k, v)]
    options.pop("one_order", None)
    slopes = options.pop("slopes", None)
    for at, (a, b, c, d) in enumerate(zip(cu_q, cu_q[1:], cu_k, cu_k[1:])):
        if a == b or c == d:
            lse[:, a:b], o[a:b] = -np.inf, 0
            continue
        own = slopes if slopes is None or slopes.ndim == 1 else slopes[at]
        found = reference(*(x.swapaxes(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d], do[a:b])), slopes=own, **options)
        o[a:b], lse[:, a:b] = found[0][0].swapaxes(0, 1), found[1][0]
        for whole, one, part in zip(wanted, found[2:5], (slice(a, b), slice(c, d), slice(c, d))):
            whole[part] = one[0].swapaxes(0, 1)
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    return [q, k, v, o, lse, do, *gradients, cu_q, cu_k], wanted


def launches_of(arrays, q_lengths, k_lengths, chosen=None, **options):
    q, k, v, *_, cu_q, _ = arrays
    longest = max(q_lengths), max(k_lengths)
    wanted = backward.workspace(q, k, v, cu_q, *longest, options.get("causal", False), chosen, options.get("one_order", False))
    work = [None if one is None else np.full(one[0], 77 if one[1] == "int32" else np.nan, one[1]) for one in wanted]
    return backward.launches(*arrays, work, *longest, chosen=chosen, **options)


def holds(machine, q_lengths, k_lengths, shape=(2, 1, 64), chosen=None, **options):
    arrays, wanted = problem(q_lengths, k_lengths, *shape, **options)
    for kernel, grid, args, meta in launches_of(arrays, q_lengths, k_lengths, chosen, **options):
        machine.launch(kernel, grid, *args, **meta)
    for name, got, one in zip(("dq", "dk", "dv"), arrays[6:9], wanted):
        error = np.linalg.norm(got.astype(np.float64) - one) / max(np.linalg.norm(one), 1e-9)
        assert error < ALLOWED, f"{name}: {error}"
        assert (got[-BEHIND:] == 0).all()


SLOPES = np.array([[.1, .2], [.3, .01], [.2, .1]], np.float32)
CASES = {
    "longer, none, shorter": ((70, 0, 130, 1, 200), (70, 5, 200, 1, 150), dict(causal=True)),
    "no keys": ((70, 20), (0, 90), dict()),
    "128, two heads of keys": ((150, 3, 0), (130, 129, 2), dict(shape=(4, 2, 128))),
    "20 short ones": ([i % 5 for i in range(20)], [(i + 1) % 4 for i in range(20)], dict(shape=(1, 1, 64), causal=True)),
    "window": ((200, 30, 1), (280, 30, 9), dict(window=(60, 20), chosen=Configuration(bm=64, q_stages=3))),
    "96": ((70, 3), (80, 9), dict(shape=(2, 1, 96), causal=True)),
    "wide": ((70, 0, 130, 3), (130, 5, 0, 3), dict(shape=(2, 1, 192, 128), causal=True)),
    "wide, all": ((70, 20, 3), (80, 5, 9), dict(shape=(2, 2, 136, 200), causal=True, window=(40, None), softcap=2.0,
                                                      slopes=SLOPES)),
    "one order": ((200, 0, 70, 3), (130, 5, 0, 9), dict(causal=True, one_order=True)),
    "one order, window": ((130, 30, 1), (280, 30, 9), dict(shape=(1, 1, 128), window=(60, 20), one_order=True)),
    "all": ((200, 70, 5), (200, 90, 3), dict(causal=True, window=(100, None), softcap=2.0, slopes=SLOPES)),
}


@pytest.mark.long(but=["longer, none, shorter", "wide, all", "one order, window"], everywhere=[
    "wide, all", "longer, none, shorter"])
@pytest.mark.parametrize("name", CASES)
def test_sequences(machine, name):
    q_lengths, k_lengths, options = CASES[name]
    holds(machine, q_lengths, k_lengths, **options)


@pytest.mark.parametrize("together", [4, 128])
def test_the_list_of_tiles(together):
    """More sequences than are looked at together; the longest come first, and what is left says so."""
    q_lengths, k_lengths = (5, 70, 0, 70, 3, 8), (300, 1, 4, 140, 0, 129)
    arrays, _ = problem(q_lengths, k_lengths)
    (kernel, grid, args, meta), (_, (size, _), _, _), _ = launches_of(arrays, q_lengths, k_lengths)
    mimw.simulate(kernel, grid, *args, **meta | dict(FORM=meta["FORM"].replace(TOGETHER=together)))
    starts_q, starts_k = arrays[9], arrays[10]
    bm = meta["FORM"].BM.value
    expected = [(one, key, starts_q[one], q_lengths[one], starts_k[one], k_lengths[one], starts_q[one] // bm + one)
                for one in (1, 3, 5, 0, 4, 2) for key in range(0, k_lengths[one], 128)]
    found = args[4].keys
    assert found[:len(expected), :7].tolist() == [list(map(int, one)) for one in expected]
    assert size == len(found) > len(expected) and (found[len(expected):, 0] == -1).all()


@pytest.mark.parametrize("together", [4, 128])
def test_the_list_of_tiles_of_queries(together):
    """Those that may look at the most keys come first, and of a sequence the last queries."""
    q_lengths, k_lengths = (5, 300, 0, 140, 3, 8), (70, 70, 4, 90, 0, 129)
    arrays, _ = problem(q_lengths, k_lengths)
    (kernel, grid, args, meta), *_ = launches_of(arrays, q_lengths, k_lengths, one_order=True)
    mimw.simulate(kernel, grid, *args, **meta | dict(FORM=meta["FORM"].replace(TOGETHER=together)))
    expected = [[one, query] for one in (5, 3, 0, 1, 2, 4) for query in reversed(range(0, q_lengths[one], 128))]
    found = args[4].queries
    assert found[:len(expected), :2].tolist() == expected and (found[len(expected):, 0] == -1).all()


@pytest.mark.gpu
@pytest.mark.long(but=["shape0-options0"])
@pytest.mark.parametrize("shape, options", [((2, 1, 64), dict(causal=True)), ((2, 1, 128), dict()), ((2, 2, 192, 128), dict()),
                                            ((2, 1, 256), dict(causal=True)), ((2, 2, 128), dict(one_order=True, causal=True))])
def test_many_sequences_on_a_gpu(shape, options):
    """More than are looked at together, and some that are longer than a block."""
    lengths = [(7 * i) % 13 if i % 60 else i % 290 for i in range(1100)]
    holds(Gpu(), lengths, lengths[::-1], shape=shape, **options)


@pytest.mark.long(but=["shape0-options0"], everywhere=True)
@pytest.mark.parametrize("shape, options", [((1, 1, 64), dict(causal=True)), ((2, 1, 128), dict()),
                                            ((1, 1, 192, 128), dict(causal=True))])
def test_every_interleaving_is_right(shape, options):
    q_lengths, k_lengths = (70, 0), (130, 3)
    arrays, _ = problem(q_lengths, k_lengths, *shape, **options)
    (before, of_before, first, more), *others = launches_of(arrays, q_lengths, k_lengths, **options)
    mimw.simulate(before, of_before, *first, **more)
    for kernel, grid, args, meta in others:
        report = mimw.check(kernel, grid, *args, seeds=2, **meta)
        assert report.ok, str(report)


def arrays_of(**changes):
    arrays, _ = problem((60, ), (60, ))
    names = "q k v o lse do dq dk dv cu_seqlens_q cu_seqlens_k".split()
    work = dict(rows=np.zeros((2, 2, 64), np.float32), sums=np.zeros((256, 32), np.float32), tiles=np.zeros((1, 8), np.int32),
                query_tiles=None)
    found = dict(zip(names, arrays)) | work | changes
    return found | dict(work=[found.pop(name) for name in work])


@pytest.mark.parametrize("change, text", [
    (dict(tiles=np.zeros((2, 8), np.int32)), "tiles is 2 x 8 int32; .* k 63 x 1 x 64 and 1 sequences it must be 1 x 8 int32"),
    (dict(rows=np.zeros((2, 2, 128), np.float32)), "rows is 2 x 2 x 128 float32; .* must be 2 x 2 x 64 float32, contiguous"),
    (dict(one_order=True), "the array for sums must not be there"),
    (dict(lse=np.zeros((63, 2), np.float32)), "lse is 63 x 2; for q 63 x 2 x 64 it must be 2 x 63, .heads,"),
    (dict(dv=np.zeros((63, 2, 64), np.float16)), "dv is 63 x 2 x 64; for k 63 x 1 x 64 and v 63 x 1 x 64 it must be"),
    (dict(cu_seqlens_k=np.zeros(2, np.int64)), "cu_seqlens_k is int64; it may be int32"),
    (dict(cu_seqlens_k=np.zeros(3, np.int32)), "cu_seqlens_k is 3; for cu_seqlens_q 2 it must be 2, .batch . 1."),
    (dict(do=np.zeros((63, 2, 128), np.float16)[..., ::2]), "do must be contiguous along its last dimension and have strides"),
    (dict(k=np.zeros((63, 3, 64), np.float16)), "v is 63 x 1 x 64; for k 63 x 3 x 64 it must be 63 x 3 x"),
    (dict(o=np.zeros((63, 2, 72), np.float16)), "o is 63 x 2 x 72; .* it must be 63 x 2 x 64"),
    (dict.fromkeys(("q", "k"), np.zeros((63, 1, 264), np.float16)),
     "o is 63 x 2 x 64; for q 63 x 1 x 264 and v 63 x 1 x 64 it must be"),
    (dict(slopes=np.zeros((2, 2), np.float32)), "slopes is 2 x 2; for q 63 x 2 x 64 and cu_seqlens_q 2 it must be")])
def test_refusals(change, text):
    with pytest.raises(ValueError, match=text):
        backward.launches(**dict(max_seqlen_q=60, max_seqlen_k=60, chosen=Configuration()) | arrays_of(**change))


@pytest.mark.gpu        # needs none, but 4 seconds of a CPU each
@pytest.mark.long(but=["1-shape0-options0"])
@pytest.mark.parametrize("number, shape, options", [(1, (1, 1, 128), dict()), (1, (1, 1, 256), dict()), (2, (1, 1, 256), dict()),
                                                    (2, (1, 1, 192, 128), dict())])
def test_products_overlap_and_nothing_spills(tmp_path, number, shape, options):
    lengths = (512, )
    arrays, _ = problem((5, ), (5, ), *shape)
    kernel, _, args, meta = launches_of(arrays, lengths, lengths, **options)[number]
    said = assembled(ptx_of(kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said, said
