"""Scales (float8_e8m0fnu) and pairs of fp4 as arguments: bytes in kernels."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.host import HostArray, as_bytes
from mimw.testing import gpu_available


@mimw.jit
def exponents(scales, desc, y, SIZE: tl.constexpr):
    tl.static_assert(scales.dtype.element_ty == tl.uint8)
    tl.static_assert(desc.dtype == tl.uint8)
    tlx.clock64()
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.load(scales + at).to(tl.int32) - 127)
    tl.store(y + SIZE + at, desc.load([0, 0]).reshape([SIZE]).to(tl.int32))
    tl.store(scales + at, (tl.load(scales + at) + 1).to(tl.uint8))


def arrays():
    scales = np.array([2.0**n for n in range(-16, 16)], np.float64).astype(ml_dtypes.float8_e8m0fnu)
    return scales, scales.reshape(1, 32).copy(), np.zeros(64, np.int32)


def test_simulated():
    scales, block, y = arrays()
    mimw.simulate(exponents, (1, ), scales, mimw.TensorDescriptor.from_tensor(block, [1, 32]), y, 32)
    assert (y[:32] == np.arange(-16, 16)).all() and (y[32:] == np.arange(111, 143)).all()
    assert (scales.astype(np.float64) == [2.0**n for n in range(-15, 17)]).all()


@pytest.mark.parametrize("where", ["__getitem__", "run"])
def test_a_launch_that_is_simulated(where, monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    scales, block, y = arrays()
    args = (scales, mimw.TensorDescriptor.from_tensor(block, [1, 32]), y, 32)
    done = exponents[(1, )](*args) if where == "__getitem__" else exponents.run(*args, grid=(1, ), warmup=False)
    assert (y[:32] == np.arange(-16, 16)).all() and "cubin" in done.asm


def test_warmup():
    """Triton's binder does not know the type; what it is given then is a view of the bytes."""
    scales, block, y = arrays()
    compiled = exponents.warmup(HostArray(scales), mimw.TensorDescriptor.from_tensor(block, [1, 32]), HostArray(y), 32, grid=(1, ))
    assert compiled.asm["cubin"]


def test_the_bytes_are_the_arrays_own():
    scales, block, _ = arrays()
    view, host, (inner, ), descriptor = (as_bytes(one) for one in (scales, HostArray(scales), (scales, ),
                                                                   mimw.TensorDescriptor.from_tensor(block, [1, 32])))
    assert view.dtype == inner.dtype == host.dtype == descriptor.base.dtype == np.uint8
    assert np.shares_memory(view, scales) and host.data_ptr() == scales.ctypes.data
    assert descriptor.base.data_ptr() == block.ctypes.data
    for other in (3, None, np.zeros(3), (1, 2)):
        assert as_bytes(other) is other or as_bytes(other) == other


@pytest.mark.gpu
def test_on_the_gpu():
    import torch
    scales = torch.arange(111, 143, dtype=torch.uint8, device="cuda").view(torch.float8_e8m0fnu)
    block = scales.view(torch.uint8).clone().view(torch.float8_e8m0fnu).reshape(1, 32)
    y = torch.zeros(64, dtype=torch.int32, device="cuda")
    exponents[(1, )](scales, mimw.TensorDescriptor.from_tensor(block, [1, 32]), y, 32)
    assert y[:32].tolist() == list(range(-16, 16)) and y[32:].tolist() == list(range(111, 143))
    assert scales.view(torch.uint8).tolist() == list(range(112, 144))
    assert gpu_available()
