"""Frozen launches where there is no GPU: the same calls and refusals, run by the simulator."""

import numpy as np
import pytest

import mimw
from mimw.errors import LaunchError
from mimw.testing import compare
from tests.kernels.frozen import add, pairs, scale


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    return random.standard_normal((4, 100)).astype(np.float32)


def test_the_same_and_other_arguments(arrays):
    x, y, a, b = arrays
    frozen = scale().freeze((1, ), x, y, 100, 1, 2.5, None, False, BLOCK=128, num_warps=2)
    assert frozen.device is None and frozen.compiled is None and "the simulator" in repr(frozen)
    assert frozen().cycles > 0
    compare(y, 2.5 * x, rtol=0, atol=0)
    frozen(a, b, 50, 1, 3.0, None, True)
    compare(b[:50], 6 * a[:50], rtol=0, atol=0)
    compare(b[50:], arrays[3, 50:], rtol=0, atol=0)


def test_addresses_are_arrays_as_long_as_the_frozen_ones(arrays):
    x, y, a, b = arrays
    frozen = scale().freeze((1, ), x, y, 100, 1, 2.5, None, False, BLOCK=128)
    frozen.launch(0, *(one.__array_interface__["data"][0] for one in (a, b)), 100, 1, 2.0, None, False)
    compare(b, 2 * a, rtol=0, atol=0)


def test_descriptors_and_tensors_in_their_place():
    random = np.random.default_rng(0)
    arrays = [random.integers(-4, 4, (128, 32)).astype(np.float16) for _ in range(6)]
    described = [mimw.TensorDescriptor.from_tensor(array, [64, 32]) for array in arrays]
    frozen = add().freeze((2, ), *described[:3], 3, BLOCK=64)
    frozen()
    compare(arrays[2], arrays[0] + 3 * arrays[1], rtol=0, atol=0)
    frozen(*arrays[3:5], described[5], 2)
    compare(arrays[5], arrays[3] + 2 * arrays[4], rtol=0, atol=0)
    frozen.launch(0, *(array.__array_interface__["data"][0] for array in arrays[:3]), 5)
    compare(arrays[2], arrays[0] + 5 * arrays[1], rtol=0, atol=0)
    with pytest.raises(LaunchError, match="a was frozen as a descriptor of a tensor of 128x32 .*and is a tensor of 64x32"):
        frozen(arrays[0][:64], arrays[1], arrays[2], 3)


def test_tuples(arrays):
    x, y, a, b = arrays
    frozen = pairs().freeze((1, ), (x, (y, 48)), 100, BLOCK=128)
    frozen((a, (b, 32)), 50)
    compare(b[:50], a[:50] + 32, rtol=0, atol=0)
    frozen.forget().launch_arrays(0, *(one.__array_interface__["data"][0] for one in (a, b)))
    compare(b, a + 48, rtol=0, atol=0)
    with pytest.raises(LaunchError, match=r"both\[1\]\[1\] was frozen as a multiple of 16"):
        frozen((a, (b, 33)), 50)


@pytest.mark.parametrize("at, value, said", [
    (0, np.zeros(100, np.float16), "x was frozen as a pointer to fp32, with elements of fp32, and has elements of fp16"),
    (2, 40, "n was frozen as a multiple of 16, and is 40"), (3, 2, "stride was frozen as the constant 1"),
    (4, 1, "factor was frozen as a number of type fp32, and is 1"), (5, 0, "bias was frozen as the constant None"),
])
def test_refusals_are_those_of_a_gpu(arrays, at, value, said):
    x, y = arrays[:2]
    first = [x, y, 96, 1, 2.5, None, False]
    frozen = scale().freeze((1, ), *first, BLOCK=128)
    first[at] = value
    with pytest.raises(LaunchError, match=said):
        frozen(*first)


def test_a_laptop_does_not_refuse_what_a_gpu_takes(arrays):
    """Memory of a GPU begins at multiples of 16 bytes; numpy's may begin anywhere."""
    x, y = arrays[:2]
    frozen = scale().freeze((1, ), x, y, 64, 1, 2.0, None, False, BLOCK=128)
    out = np.zeros(101, np.float32)[1:]
    frozen(x, out, 64, 1, 2.0, None, False)
    compare(out[:64], 2 * x[:64], rtol=0, atol=0)


def test_scales_of_eight_bits_are_bytes():
    import ml_dtypes
    import triton.language as tl

    @mimw.jit
    def twice(x, y, N: tl.constexpr):
        at = tl.arange(0, N)
        tl.store(y + at, tl.load(x + at) * 2)

    x, y = np.arange(64, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu), np.zeros(64, np.uint8)
    frozen = twice.freeze((1, ), x, y, N=64)
    frozen(x, y)
    assert (y == 2 * np.arange(64)).all()


def test_what_is_known_before_a_launch_is_refused_at_freezing(arrays):
    x, y = arrays[:2]
    rest = (100, 1, 2.5, None, False)
    with pytest.raises(LaunchError, match="3 % 2 = 1"):
        scale().freeze((3, ), x, y, *rest, BLOCK=128, ctas_per_cga=(2, 1, 1))
    with pytest.raises(mimw.errors.TargetError, match="clusters of 32 CTAs"):
        scale().freeze((32, ), x, y, *rest, BLOCK=128, ctas_per_cga=(32, 1, 1))
    with pytest.raises(LaunchError, match="numbers of CTAs are whole"):
        scale().freeze((1.5, ), x, y, *rest, BLOCK=128)


def test_a_frozen_launch_forgets(arrays):
    x, y, a, b = arrays
    frozen = scale().freeze((1, ), x, y, 100, 1, 2.5, None, False, BLOCK=128).forget()
    with pytest.raises(LaunchError, match="has forgotten the arguments"):
        frozen()
    frozen(a, b, 100, 1, 2.0, None, False)
    compare(b, 2 * a, rtol=0, atol=0)


def test_hooks_before_a_run(arrays):
    x, y = arrays[:2]
    kernel, seen = scale(), []
    kernel.add_pre_run_hook(lambda *args, **meta: seen.append(len(args)))
    frozen = kernel.freeze((1, ), x, y, 100, 1, 2.5, None, False, BLOCK=128)
    assert seen == []
    frozen()
    assert seen == [9]
