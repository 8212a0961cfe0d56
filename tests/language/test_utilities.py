"""Questions about types, threads and time, and the ring helper."""

import pytest
import triton.language as tl
from triton.runtime.jit import JITFunction

import mimw.tlx as tlx

from .harness import Kernel


def test_dtype_of(kernel):
    assert kernel(tlx.dtype_of, kernel.tensor("x", tl.float16, 64)) == tl.float16
    assert kernel(tlx.dtype_of, kernel.tensor("n", tl.int32)) == tl.int32
    assert kernel(tlx.dtype_of, kernel.tensor("p", tl.pointer_type(tl.bfloat16))) == tl.bfloat16
    assert kernel(tlx.dtype_of, kernel.tensor("q", tl.pointer_type(tl.int8), 64)) == tl.int8
    assert kernel(tlx.dtype_of, kernel.descriptor("d", tl.float8e5, 64, 64)) == tl.float8e5


@pytest.mark.parametrize("value", [3, tl.constexpr(2.0), None, tl.float16])
def test_dtype_of_anything_else(kernel, value):
    with pytest.raises(ValueError, match="dtype_of takes a tensor, a pointer or a tensor descriptor"):
        kernel(tlx.dtype_of, value)


@pytest.mark.parametrize("dtype, size", [(tl.float32, 4), (tl.bfloat16, 2), (tl.float8e5, 1), (tl.int64, 8), (tl.int1, 1),
                                         (tl.constexpr(tl.float16), 2), (tl.pointer_type(tl.int8), 8)])
def test_size_of(kernel, dtype, size):
    answer = kernel(tlx.size_of, dtype)
    assert isinstance(answer, tl.constexpr) and answer.value == size
    assert (64 * answer).value == 64 * size


def test_size_of_anything_else(kernel):
    with pytest.raises(AssertionError, match="size_of takes a dtype"):
        kernel(tlx.size_of, 16)


def test_fp8_names(kernel):
    assert kernel(tlx.get_fp8_format_name, tl.float8e5).value == "e5m2"
    assert kernel(tlx.get_fp8_format_name, tl.constexpr(tl.float8e4nv)).value == "e4m3"
    with pytest.raises(AssertionError, match="only supports tl.float8e5"):
        kernel(tlx.get_fp8_format_name, tl.float16)


def test_thread_id_and_clock(kernel):
    assert kernel(tlx.thread_id, 2).type == tl.int32
    assert kernel(tlx.clock64).type == tl.int64
    assert kernel.text() == ["%0 = thread_id axis=2 : i32", "%1 = clock64 : i64"]


@pytest.mark.parametrize("axis", [-1, 3, True, "x"])
def test_thread_id_axis(kernel, axis):
    with pytest.raises(ValueError, match="thread_id axis must be 0, 1, or 2"):
        kernel(tlx.thread_id, axis)


@pytest.mark.parametrize("count, slot_and_phase", [(0, (0, 0)), (2, (2, 0)), (3, (0, 1)), (5, (2, 1)), (6, (0, 0))])
def test_ring_helper(count, slot_and_phase):
    assert isinstance(tlx.warp_spec.get_bufidx_phase, JITFunction)
    assert tlx.warp_spec.get_bufidx_phase.fn(count, 3) == slot_and_phase


def test_ballot(kernel):
    assert kernel(tlx.vote_ballot_sync, 0xFFFFFFFF, kernel.tensor("p", tl.int1)).type == tl.int32
    tile = kernel(tlx.vote_ballot_sync, tl.constexpr(0xF), kernel.tensor("x", tl.float32, 64))
    assert tile.shape == [64] and tile.dtype == tl.int32
    names = [line.split(" = ")[-1].split(":")[0].strip() for line in kernel.text()]
    assert names[0].startswith("vote_ballot mask=4294967295") and names[-1].startswith("vote_ballot mask=15")


@pytest.mark.parametrize("mask", [1 << 32, None, "all", True])
def test_ballot_mask(kernel, mask):
    with pytest.raises(ValueError, match="mask must be a 32-bit constexpr int"):
        kernel(tlx.vote_ballot_sync, mask, kernel.tensor("p", tl.int1))


def test_reductions_of_a_warp():
    kernel = Kernel("sm100")
    x = kernel.tensor("x", tl.float32, 64)
    assert kernel(tlx.warp_redux, x, "abs_max").type == x.type and kernel.text()[-1].startswith("%1 = warp_redux %0, op='abs_max'")
    for value, op, text in [(x, "sum", "op must be max, min, abs_max or abs_min"),
                            (kernel.tensor("h", tl.float16, 64), "max", "warp_redux only supports fp32")]:
        with pytest.raises(AssertionError, match=text):
            kernel(tlx.warp_redux, value, op)
    with pytest.raises(AssertionError, match=r"only available on Blackwell chips with tensor memory .sm_100a, sm_103a.,"):
        Kernel("sm120")(tlx.warp_redux, x, "max")


def test_stochastic_rounding():
    kernel = Kernel("sm100")
    single, half, bits = (kernel.tensor(*one, 64) for one in (("x", tl.float32), ("h", tl.float16), ("r", tl.uint32)))
    assert kernel(tlx.stoch_round, single, tl.float8e5, bits).type == tl.block_type(tl.float8e5, [64])
    for src, to, random, text in [(half, tl.float8e5, bits, "only supports fp32 source"),
                                  (single, tl.float32, bits, "only supports fp8/fp16/bf16 destination"),
                                  (single, tl.float16, kernel.tensor("t", tl.uint32, 32), "must have the shape of src"),
                                  (single, tl.float16, kernel.tensor("w", tl.int64, 64), "must be 32-bit integers")]:
        with pytest.raises(AssertionError, match=text):
            kernel(tlx.stoch_round, src, to, random)
    with pytest.raises(ValueError, match="both be block tensors or both scalars"):
        kernel(tlx.stoch_round, single, tl.float16, kernel.tensor("s", tl.uint32))
    with pytest.raises(AssertionError, match="only available on Blackwell"):
        Kernel("sm90")(tlx.stoch_round, single, tl.float16, bits)
