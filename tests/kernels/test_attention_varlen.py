"""Attention on packed sequences: lengths of all kinds, each with its own mask; what is in no sequence stays, and is not seen."""

import numpy as np
import pytest

import mimw
from mimw.kernels import attention_varlen
from mimw.kernels.attention.configs import value_dim
from mimw.kernels.attention_varlen import Configuration, configuration
from mimw.testing.machines import Gpu
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

from .packed_sequences import expect, packed

ONE_SLOT = Configuration(ahead=False)


def launch(machine, arrays, programs, max_q, max_k, **options):
    counter = np.zeros(1, np.int32)
    grid, args, meta = attention_varlen.arguments(*arrays, counter, programs, max_q, max_k, **options)
    machine.launch(attention_varlen.kernel, grid, *args, **meta)
    assert counter[0] == 0, "a launch must leave the counter at 0"


def holds(machine, q_lengths, k_lengths, programs=2, chosen=None, shape=(2, 1, 64), **options):
    arrays = packed(q_lengths, k_lengths, *shape)
    wanted, wanted_lse = expect(*arrays, **options)
    launch(machine, arrays, programs, max(q_lengths), max(k_lengths), chosen=chosen, **options)
    np.testing.assert_allclose(arrays[3].astype(np.float64), wanted, rtol=0, atol=2e-3)
    np.testing.assert_allclose(arrays[4], wanted_lse, rtol=0, atol=1e-4)


SINKS, SLOPES = np.array([1, 2], np.float32), np.array([[.1, .2], [.3, .01]], np.float32)
CASES = {
    "longer, none, shorter": ((70, 0, 130, 1, 300), (70, 5, 200, 1, 150), dict(causal=True)),
    "one program": ((130, 20, 1, 60), (130, 300, 1, 10), dict(programs=1)),
    "200 short ones": ([i % 5 for i in range(200)], [(i + 1) % 4 for i in range(200)], dict(shape=(1, 1, 64), causal=True)),
    "one slot": ((150, 70), (100, 90), dict(causal=True, chosen=ONE_SLOT)),
    "three slots of queries": ((60, 70, 3, 0, 130), (60, 9, 80, 4, 100), dict(chosen=Configuration(q_stages=3, v_stages=2))),
    "sinks, no keys": ((30, 70, 40), (0, 90, 10), dict(sinks=SINKS, causal=True)),
    "all": ((300, 70), (300, 90), dict(causal=True, window=(100, None), softcap=2.0, sinks=SINKS, slopes=SLOPES)),
    "heads of 192": ((70, 130), (100, 140), dict(shape=(2, 2, 192, 128))),
}
ON_A_GPU = {    # what differs little in the simulator, where each takes a third of a second
    "no keys": ((70, 20), (0, 90), dict()),
    "no queries at all": ((0, 0), (3, 4), dict()),
    "fewer tiles than programs": ((3, ), (5, ), dict(programs=5, causal=True)),
    "in turns": ((300, 70), (300, 90), dict(causal=True, chosen=Configuration(ping_pong=True))),
    "three consumers": ((300, 70, 40), (300, 90, 10), dict(chosen=Configuration(bm=192, consumers=3))),
    "window": ((300, 70, 40), (300, 90, 10), dict(window=(100, 20))),
    "heads of 96": ((70, 130), (100, 140), dict(shape=(2, 1, 96), causal=True)),
}


@pytest.mark.long(but=["longer, none, shorter", "sinks, no keys", "all", "heads of 192"], everywhere=[
    "all", "longer, none, shorter", "heads of 192"])
@pytest.mark.parametrize("name", CASES)
def test_sequences(machine, name):
    q_lengths, k_lengths, options = CASES[name]
    holds(machine, q_lengths, k_lengths, **options)


@pytest.mark.gpu
@pytest.mark.long(but=["no queries at all", "in turns", "three consumers"])
@pytest.mark.parametrize("name", ON_A_GPU)
def test_more_sequences(name):
    q_lengths, k_lengths, options = ON_A_GPU[name]
    holds(Gpu(), q_lengths, k_lengths, **options)


@pytest.mark.gpu
@pytest.mark.long(but=["True-128"])
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_many_sequences_on_a_gpu(dim, causal):
    """Lengths around a tile's, 132 programs, three launches with one counter."""
    lengths = [(37 * i) % 400 for i in range(60)]
    for _ in range(3):
        holds(Gpu(), lengths, lengths[::-1], 132, shape=(4, 2, dim, value_dim(dim)), causal=causal)


@pytest.mark.long(shown_by="test_attention.py::test_every_interleaving_is_right")
def test_no_interleaving_is_wrong():
    arrays = packed((70, 0, 20), (150, 3, 20), 1)
    grid, args, meta = attention_varlen.arguments(*arrays, np.zeros(1, np.int32), 2, 70, 150, causal=True)
    report = mimw.check(attention_varlen.kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)


def test_strides():
    """q, k and v as columns of one array, as a projection writes them."""
    q, k, v, o, lse, cu_q, cu_k = packed((70, 60), (70, 60), 2, 1)
    whole = np.concatenate((q, k, v), 1)
    arrays = whole[:, :2], whole[:, 2:3], whole[:, 3:], o, lse, cu_q, cu_k
    wanted, _ = expect(*arrays)
    grid, args, meta = attention_varlen.arguments(*arrays, np.zeros(1, np.int32), 2, 70, 70)
    mimw.simulate(attention_varlen.kernel, grid, *args, **meta)
    np.testing.assert_allclose(o.astype(np.float64), wanted, rtol=0, atol=2e-3)


def arrays_of(**changes):
    q, k, v, o, lse, cu_q, cu_k = packed((60, ), (60, ))
    return dict(q=q, k=k, v=v, o=o, lse=lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k) | changes


@pytest.mark.parametrize("change, text", [
    (dict(cu_seqlens_q=np.zeros(3, np.int32)), "cu_seqlens_k is 2; for cu_seqlens_q 3 it must be 3, .batch . 1."),
    (dict(cu_seqlens_k=np.zeros(2, np.int64)), "cu_seqlens_k is int64; it may be int32"),
    (dict(cu_seqlens_k=np.zeros(4, np.int32)[::2]), "cu_seqlens_k must be contiguous; its strides are 2 elements"),
    (dict(lse=np.zeros((63, 2), np.float32)), "lse is 63 x 2; for q 63 x 2 x 64 it must be 2 x 63, .heads,"),
    (dict(v=np.zeros((63, 2, 64), np.float16)), "v is 63 x 2 x 64; for k 63 x 1 x 64 it must be 63 x 1 x"),
    (dict(v=np.zeros((63, 1, 64), np.float32)), "q is float16 and v float32; both must be of one type"),
    (dict(q=np.zeros((63, 2, 128), np.float16)[..., ::2]), "q must be contiguous along its last dimension and have strides of"),
    (dict(max_seqlen_q=-1), "max_seqlen_q is -1"), (dict(scale=0.0), "scale is 0.0"),
    (dict(slopes=np.zeros((2, 2), np.float32)), "slopes is 2 x 2; for q 63 x 2 x 64 and cu_seqlens_q 2 it must be")])
def test_refusals(change, text):
    with pytest.raises(ValueError, match=text):
        attention_varlen.arguments(**dict(max_seqlen_q=60, max_seqlen_k=60, counter=np.zeros(1, np.int32), programs=1)
                                   | arrays_of() | change)


@pytest.mark.gpu        # needs none, but 5 seconds of a CPU
def test_nothing_spills(tmp_path):
    """Full launches of heads of two tiles; causal ones spill 16 bytes, as ../attention's for lengths that no tile divides."""
    arrays = packed((512, ), (512, ), 4, 2, 96)
    _, args, meta = attention_varlen.arguments(*arrays, np.zeros(1, np.int32), 132, 512, 512)
    assert meta["FORM"].BM.value == configuration(96, False, False, 512).bm
    said = assembled(ptx_of(attention_varlen.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
