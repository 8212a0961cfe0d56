"""Asynchronous dots: result types, operand rules and the wait."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.compiler.passes import check_target
from mimw.errors import KernelError, TargetError
from mimw.target import target

from .harness import Kernel


def operands(kernel, dtype=tl.float16, m=64, n=128, k=64, turned=False):
    """Buffers A (M, K) and B (K, N); with `turned`, B is a transposed view of an (N, K) buffer."""

    def one(*shape):
        return kernel(tlx.local_view, kernel(tlx.local_alloc, shape, dtype, 1), 0)

    return one(m, k), kernel(tlx.local_trans, one(n, k)) if turned else one(k, n)


@pytest.mark.parametrize("dtype, out, result", [
    (tl.float16, tl.float32, tl.float32), (tl.float16, tl.float16, tl.float16), (tl.bfloat16, tl.float32, tl.float32),
    (tl.float32, tl.float32, tl.float32), (tl.float8e5, tl.float32, tl.float32), (tl.float8e4nv, tl.float16, tl.float16),
    (tl.int8, tl.float32, tl.int32)
])
def test_result_types(kernel, dtype, out, result):
    a, b = operands(kernel, dtype, turned=True)
    acc = kernel(tlx.async_dot, a, b, out_dtype=out)
    again = kernel(tlx.async_dot, a, b, acc, out_dtype=out)
    assert acc.type == again.type == tl.block_type(result, [64, 128])
    assert [op.args[2] is None for op in kernel.program().body.ops if op.name == "async_dot"] == [True, False]


def test_a_may_be_in_registers(kernel):
    _, b = operands(kernel)
    kernel(tlx.async_dot, kernel.tensor("p", tl.float16, 64, 64), b)
    assert kernel.text()[-1] == "%7 = async_dot %0, %6, precision=TF32, max_imprecise=0 : fp32[64, 128]"


def test_b_may_not(kernel):
    a, _ = operands(kernel)
    with pytest.raises(KernelError, match="B must be a buffer in shared memory"):
        kernel(tlx.async_dot, a, kernel.tensor("b", tl.float16, 64, 128))


def test_what_hopper_ignores(kernel):
    a, b = operands(kernel)
    bar = kernel(tlx.alloc_barriers, 1)
    kernel(tlx.async_dot, a, b, use_acc=False, pred=kernel.tensor("p", tl.int1), mBarriers=[bar], two_ctas=True, force_async=True)
    assert [str(value.type) for value in kernel.program().body.ops[-1].operands] == [
        "buffer<fp16[64, 64]>", "buffer<fp16[64, 128]>"]


@pytest.mark.parametrize("dtype, given, name", [(tl.float32, None, "TF32"), (tl.float32, "tf32", "TF32"),
                                                (tl.float16, "ieee", "IEEE"), (tl.float16, None, "TF32")])
def test_precision(kernel, dtype, given, name):
    a, b = operands(kernel, dtype, turned=True)
    kernel(tlx.async_dot, a, b, input_precision=given)
    assert kernel.program().body.ops[-1].args[3].name == name


@pytest.mark.parametrize("given, name", [("tf32x3", "TF32x3"), ("ieee", "IEEE")])
def test_precision_that_the_tensor_core_has_not(kernel, given, name):
    """The accumulator is waited for, operands may be contiguous along either dimension."""
    a, b = operands(kernel, tl.float32)
    acc = kernel(tlx.async_dot, a, b, input_precision=given)
    kernel(tlx.async_dot, a, b, acc, input_precision=given)
    first, *loads, wait, second = kernel.program().body.ops[-5:]
    assert [op.name for op in (first, *loads, wait, second)] == [
        "async_dot", "local_load", "local_load", "async_dot_wait", "async_dot"]
    assert first.args[3].name == name and first.attrs["emulated"] and second.args[2] is wait.result


def test_precision_must_be_known(kernel):
    a, b = operands(kernel)
    with pytest.raises(AssertionError, match="input_precision must be one of"):
        kernel(tlx.async_dot, a, b, input_precision="fp64")


@pytest.mark.parametrize("shape, text", [
    (dict(m=32), "M must be a multiple of 64 on Hopper, got M = 32"), (dict(n=4), "N must be .* got N = 4"),
    (dict(n=512), "N must be .* got N = 512"), (dict(k=8), "K must be at least 16, got K = 8"),
    (dict(k=16, dtype=tl.int8, turned=True), "K must be a multiple of 32 .* got K = 16"),
])
def test_shapes(kernel, shape, text):
    a, b = operands(kernel, **shape)
    with pytest.raises(AssertionError, match=text):
        kernel(tlx.async_dot, a, b)


def test_operands_must_agree(kernel):
    a, b = operands(kernel)
    _, longer = operands(kernel, k=128)
    _, other = operands(kernel, tl.bfloat16)
    with pytest.raises(AssertionError, match="the inner dimensions differ.* K is 64 and 128"):
        kernel(tlx.async_dot, a, longer)
    with pytest.raises(AssertionError, match="same dtype, got fp16 and bf16"):
        kernel(tlx.async_dot, a, other)
    with pytest.raises(AssertionError, match="unsupported dtype int16 of A"):
        kernel(tlx.async_dot, *operands(kernel, tl.int16))
    with pytest.raises(AssertionError, match="must have rank 2"):
        kernel(tlx.async_dot, kernel(tlx.local_view, a, 0), b)
    with pytest.raises(KernelError, match=r"array of 1\nMend: index it: `A\[0\]`"):
        kernel(tlx.async_dot, kernel(tlx.local_alloc, (64, 64), tl.float16, 1), b)


def test_two_kinds_of_fp8_may_meet(kernel):
    a, _ = operands(kernel, tl.float8e5)
    _, b = operands(kernel, tl.float8e4nv, turned=True)
    assert kernel(tlx.async_dot, a, b).dtype == tl.float32


@pytest.mark.parametrize("dtype", [tl.float32, tl.float8e5, tl.float8e4nv, tl.int8])
def test_8_bit_and_tf32_operands_are_contiguous_along_k(kernel, dtype):
    a, b = operands(kernel, dtype)
    with pytest.raises(KernelError, match=r"B must be a transposed view of an \(N, K\) buffer.*\nMend: allocate B as \(N, K\)"):
        kernel(tlx.async_dot, a, b)
    good = kernel(tlx.local_trans, kernel(tlx.local_view, kernel(tlx.local_alloc, (128, 64), dtype, 1), 0))
    turned = kernel(tlx.local_trans, kernel(tlx.local_view, kernel(tlx.local_alloc, (64, 64), dtype, 1), 0))
    with pytest.raises(KernelError, match=r"A must be \(M, K\) row-major"):
        kernel(tlx.async_dot, turned, good)
    kernel(tlx.async_dot, a, good)
    assert kernel.program().body.ops[-1].name == "async_dot"


def test_16_bit_operands_lie_either_way(kernel):
    a = kernel(tlx.local_trans, operands(kernel, m=64, k=64)[0])
    for turned in (False, True):
        kernel(tlx.async_dot, a, operands(kernel, turned=turned)[1])
    assert [op.name for op in kernel.program().body.ops].count("async_dot") == 2


def test_out_dtype(kernel):
    with pytest.raises(AssertionError, match="bf16 operands cannot give out_dtype bf16"):
        kernel(tlx.async_dot, *operands(kernel, tl.bfloat16), out_dtype=tl.bfloat16)


def test_the_accumulator_is_like_the_result(kernel):
    a, b = operands(kernel)
    for acc in (kernel.tensor("s", tl.float32, 64, 64), kernel.tensor("h", tl.float16, 64, 128), 0):
        with pytest.raises(KernelError, match=r"`acc` must be fp32\[64, 128\]"):
            kernel(tlx.async_dot, a, b, acc)
    with pytest.raises(KernelError, match="`acc` is a register tile"):
        kernel(tlx.async_dot, a, b, b)


def test_registers_of_a_tile_that_is_used_up(kernel):
    """They are the accumulator's, of a product that begins anew."""
    a, b = operands(kernel)
    used_up = kernel.tensor("s", tl.float32, 64, 128)
    kernel(tlx.async_dot, a, b, registers=used_up)
    kernel(tlx.async_dot, a, b, used_up)
    *_, fresh, added = kernel.program().body.ops
    assert fresh.acc is added.acc and [op.attrs.get("fresh") for op in (fresh, added)] == [True, None]
    with pytest.raises(KernelError, match="so there can be only one of them"):
        kernel(tlx.async_dot, a, b, used_up, registers=used_up)
    with pytest.raises(KernelError, match=r"`registers` must be fp32\[64, 128\]"):
        kernel(tlx.async_dot, a, b, registers=kernel.tensor("h", tl.float16, 64, 128))


def test_targets():
    ada, blackwell = Kernel("sm89"), Kernel("sm100")
    with pytest.raises(TargetError, match="needs sm_90 or newer, .*\nMend: on sm_89 multiply by tl.dot, of tlx.local_load of"):
        ada(tlx.async_dot, *operands(ada))
    a, b = operands(blackwell)
    with pytest.raises(AssertionError, match="register operand is not supported on Blackwell"):
        blackwell(tlx.async_dot, blackwell.tensor("a", tl.float16, 64, 64), b)
    with pytest.raises(KernelError, match="`acc` is a buffer in tensor memory"):
        blackwell(tlx.async_dot, a, b)


def test_a_blackwell_chip_without_tensor_memory():
    """sm_120 has neither wgmma nor tensor memory: the word is recorded, and refused by the check that knows the chip."""
    kernel = Kernel("sm120")
    kernel(tlx.async_dot, *operands(kernel))
    with pytest.raises(TargetError, match="sm_120a cannot do 'async_dot': it has no asynchronous dots into registers"):
        check_target(kernel.program(), target("sm_120a"))


def test_wait(kernel):
    acc = kernel(tlx.async_dot, *operands(kernel))
    done = kernel(tlx.async_dot_wait, tl.constexpr(1), acc)
    assert done.type == acc.type
    assert kernel.text()[-1] == "%7 = async_dot_wait pending=1, %6 : fp32[64, 128]"
    with pytest.raises(ValueError, match="pendings must be a constexpr int >= 0"):
        kernel(tlx.async_dot_wait, -1, acc)
    with pytest.raises(KernelError, match="`inp` must be the result of an async_dot"):
        kernel(tlx.async_dot_wait, 0, 3)
