"""Frozen launches on a device: right results with other tensors, streams, in graphs; the bytes of the descriptors."""

import ctypes
import gc
import sys

import pytest

import mimw
from mimw.errors import LaunchError
from tests.kernels.frozen import add, pairs, scale

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

REST = (100, 1, 2.5, None, False)


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def test_the_same_and_other_arguments():
    x, y, a, b = drawn(4, 128)
    frozen = scale().freeze((1, ), x, y, *REST, BLOCK=128)
    y.zero_()
    frozen()
    assert torch.equal(y[:100], 2.5 * x[:100]) and not y[100:].any()
    frozen(a, b, 64, 1, 3.0, None, True)
    assert torch.equal(b[:64], 6 * a[:64])
    frozen.launch(torch.cuda.current_stream().cuda_stream, x.data_ptr(), b.data_ptr(), 128, 1, 1.0, None, False)
    assert torch.equal(b, x)
    frozen.launch_arrays(torch.cuda.current_stream().cuda_stream, x.data_ptr(), a.data_ptr())
    assert torch.equal(a[:100], 2.5 * x[:100])


@pytest.fixture
def described():
    tensors = [torch.randint(-4, 4, (256, 64), device="cuda").half() for _ in range(6)]
    return tensors, [mimw.TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in tensors]


def test_descriptors(described):
    tensors, descriptors = described
    frozen = add().freeze((4, ), *descriptors[:3], 3, BLOCK=64)
    frozen()
    assert torch.equal(tensors[2], tensors[0] + 3 * tensors[1])
    for given in (tensors[3:], descriptors[3:]):
        tensors[5].zero_()
        frozen(*given, 2)
        assert torch.equal(tensors[5], tensors[3] + 2 * tensors[4])
    frozen.launch(torch.cuda.current_stream().cuda_stream, *(tensor.data_ptr() for tensor in tensors[:3]), 5)
    assert torch.equal(tensors[2], tensors[0] + 5 * tensors[1])
    frozen.forget().launch_arrays(torch.cuda.current_stream().cuda_stream, *(tensor.data_ptr() for tensor in tensors[3:]))
    assert torch.equal(tensors[5], tensors[3] + 3 * tensors[4])
    with pytest.raises(LaunchError, match="begins at address"):
        frozen.launch(0, tensors[0].data_ptr() + 2, tensors[1].data_ptr(), tensors[2].data_ptr(), 5)


def test_descriptors_have_the_bytes_that_stock_gives_them(described):
    from triton.backends.nvidia.driver import make_tensordesc_arg
    tensors, descriptors = described
    frozen = add().freeze((4, ), *descriptors[:3], 3, BLOCK=64)
    ours = frozen._route.maps[0][tensors[5].data_ptr()]
    theirs = make_tensordesc_arg(descriptors[5], frozen.compiled.metadata.tensordesc_meta[0], None)[0]
    size = sys.getsizeof(ours)
    assert type(ours) is type(theirs)
    ours, theirs = (ctypes.string_at(id(one) + size - 128, 128) for one in (ours, theirs))
    assert ours == theirs and tensors[5].data_ptr().to_bytes(8, "little") in ours


def test_after_garbage_collection_and_new_tensors(described):
    tensors, descriptors = described
    frozen = add().freeze((4, ), *descriptors[:3], 3, BLOCK=64).forget()
    del descriptors
    tensors.clear()
    gc.collect()
    torch.cuda.empty_cache()
    for _ in range(3):
        a, b, c = (torch.randint(-4, 4, (256, 64), device="cuda").half() for _ in range(3))
        frozen(a, b, c, 2)
        assert torch.equal(c, a + 2 * b)


def test_tuples():
    x, y, a, b = drawn(4, 128)
    frozen = pairs().freeze((1, ), (x, (y, 48)), 100, BLOCK=128)
    frozen((a, (b, 32)), 128)
    assert torch.equal(b, a + 32)


def test_in_a_graph():
    x, y, a, b = drawn(4, 128)
    frozen = scale().freeze((1, ), x, y, *REST, BLOCK=128)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        frozen()
        frozen(y, b, *REST)
    y.zero_(), b.zero_()
    for factor in (1, 2):
        x.fill_(factor)
        graph.replay()
        assert (b[:100] == 6.25 * factor).all() and not b[100:].any()


def test_on_another_stream():
    x, y, a, b = drawn(4, 1 << 22)
    frozen = scale().freeze((1 << 15, ), x, y, 1 << 22, 1, 2.0, None, False, BLOCK=128)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        a.fill_(3.0)
        frozen(a, b, 1 << 22, 1, 2.0, None, False)
    frozen(b, y, 1 << 22, 1, 2.0, None, False, stream=side)
    frozen.launch(side.cuda_stream, y.data_ptr(), x.data_ptr(), 1 << 22, 1, 2.0, None, False)
    side.synchronize()
    assert (x == 24.0).all()


def test_tensors_of_the_host():
    x, y = drawn(2, 128)
    frozen = scale().freeze((1, ), x, y, *REST, BLOCK=128)
    with pytest.raises(LaunchError, match="x is on the CPU, and the launch was frozen on device 0"):
        frozen(x.cpu(), y, *REST)
    pinned = x.cpu().pin_memory()
    y.zero_()
    frozen(pinned, y, *REST)
    assert torch.equal(y[:100], 2.5 * x[:100])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
def test_two_devices():
    x, y = drawn(2, 128)
    frozen = scale().freeze((1, ), x, y, *REST, BLOCK=128)
    y.zero_()
    with torch.cuda.device(1):
        frozen()
        assert torch.cuda.current_device() == 1
        with pytest.raises(LaunchError, match="x is on device 1"):
            frozen(torch.zeros(128, device="cuda"), y, *REST)
    torch.cuda.synchronize()
    assert torch.equal(y[:100], 2.5 * x[:100])
