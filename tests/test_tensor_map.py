"""What no TMA descriptor can describe is refused before the launch, in our words: made on the host or in the kernel, by our
class or by Triton's. The last test asks the driver's encoder itself."""

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.triton_port.runtime import TensorDescriptor as Stock
from mimw.errors import KernelError, LaunchError
from mimw.ir.tensor_map import MOST, block_problem, tensor_problem
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.host import HostArray
from tests.compiling import to_ttgir


class Placed:
    """A tensor of a given dtype that starts at a given address, as far as a descriptor asks."""

    def __init__(self, address: int, dtype=np.float16):
        self.address, self.dtype = address, np.dtype(dtype)

    def data_ptr(self) -> int:
        return self.address


# address, shape, strides in elements, block, element bytes; what is said of it, or "" if it is right
CASES = [
    (0, (64, 64), (64, 1), (16, 64), 2, ""),
    (16, (1, ), (1, ), (8, ), 2, ""),
    (0, (3, 5, 7, 9, 11), (2520 * 16, 504 * 16, 72 * 16, 16, 1), (1, 1, 1, 1, 16), 2, ""),
    (0, (MOST, 16), (16, 1), (16, 16), 1, ""),
    (0, (64, 64), (0, 1), (16, 64), 2, ""),
    (0, (2, 64), ((1 << 39) - 8, 1), (1, 64), 2, ""),
    (8, (64, 64), (64, 1), (16, 64), 2, "starts at address 0x8, 8 bytes behind a multiple of 16"),
    (0, (64, 60), (60, 1), (16, 64), 2, "stride of its dimension 0 is 60 elements x 2 bytes = 120 bytes.*multiples of 16 bytes"),
    (0, (2, 64), (1 << 39, 1), (1, 64), 2, "1099511627776 bytes, and strides are 0 to 2.40 - 1 bytes"),
    (0, (2, 64), (-64, 1), (1, 64), 2, "-128 bytes, and strides are 0 to"),
    (0, (64, 64), (64, 2), (16, 64), 2, "last dimension has stride 2"),
    (0, (0, 64), (64, 1), (16, 64), 2, f"dimension 0 has extent 0, and extents are 1 to {MOST}"),
    (0, (MOST + 1, 64), (64, 1), (16, 64), 1, "dimension 0 has extent 2147483648"),
    (0, (2, ) * 6, (32, 16, 16, 16, 16, 1), (1, ) * 6, 2, "has 6 dimensions, and TMA has 1 to 5"),
    (0, (64, 64), (64, 1), (64, ), 2, "has 2 extents, 2 strides and a block of 1"),
]


@pytest.mark.parametrize("address, shape, strides, block, size, says", CASES)
def test_tensors(address, shape, strides, block, size, says):
    dtype = {1: np.int8, 2: np.float16}[size]

    def made():
        return mimw.TensorDescriptor(Placed(address, dtype), list(shape), list(strides), list(block))

    if not says:
        assert made().shape == list(shape)
        assert tensor_problem(address, shape, strides, len(block), size) is None
        return
    with pytest.raises(LaunchError, match=f"this tensor descriptor is invalid: .*{says}.*\nMend: "):
        made()


@pytest.mark.parametrize("block, size, mend", [((16, 4), 2, 8), ((16, 2), 4, 4), ((8, ), 1, 16), ((4, 1), 8, 2), ((16, 8), 2, 0),
                                               ((512, 16), 1, 0), ((1, 2), 8, 0)])
def test_rows_of_a_block(block, size, mend):
    found = block_problem(block, size)
    assert not mend and found is None or f"make the block's last extent {mend} or more" == found[1]
    if mend:
        assert f"{block[-1]} elements x {size} bytes = {block[-1] * size} bytes" in found[0]


@pytest.mark.parametrize("dtype, padding, says", [
    (np.int32, "nan", "elements of type i32 as plain integers"), (ml_dtypes.float8_e5m2, "nan", "elements of type fp8e5 as plain"),
    (np.float16, "ones", "pads with 'ones'"), (np.float16, "nan", ""), (ml_dtypes.bfloat16, "nan", ""), (np.int32, "zero", "")])
def test_padding(dtype, padding, says):
    x = np.zeros((32, 32), dtype)
    if not says:
        assert mimw.TensorDescriptor.from_tensor(x, [16, 32], padding).padding == padding
        return
    with pytest.raises(LaunchError, match=says):
        mimw.TensorDescriptor.from_tensor(x, [16, 32], padding)


@mimw.jit
def by_words(x_desc, y_ptr, R: tl.constexpr, C: tl.constexpr):
    """A block through shared memory, by a copy of the author's."""
    tile = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], R * C * tlx.size_of(tlx.dtype_of(x_desc)))
    tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], tlx.local_load(tile[0]))


@mimw.jit
def plain(x_desc, y_ptr, R: tl.constexpr, C: tl.constexpr):
    """A block by `desc.load`: no word of ours, so stock Triton compiles it."""
    tl.store(y_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], x_desc.load([0, 0]))


NARROW = (r"the tensor descriptor given as 'x_desc' to kernel '\w+', fp32\[16,2\], is invalid on sm_90a: a row of its block is "
          r"2 elements x 4 bytes = 8 bytes")


@pytest.mark.parametrize("kernel", [by_words, plain])
def test_narrow_blocks_are_refused_when_compiling(kernel):
    signature = {"x_desc": "tensordesc<fp32[16,2]>", "y_ptr": "*fp32"}
    with pytest.raises(LaunchError, match=NARROW):
        compile_kernel(kernel, signature, dict(R=16, C=2))
    compile_kernel(kernel, signature | {"x_desc": "tensordesc<fp32[16,4]>"}, dict(R=16, C=4))


def test_chips_without_tma_go_by_pointers():
    compile_kernel(plain, {"x_desc": "tensordesc<fp32[16,2]>", "y_ptr": "*fp32"}, dict(R=16, C=2), "sm_80")


def test_elements_of_one_bit():
    with pytest.raises(LaunchError, match="elements are of type i1, which TMA cannot copy.\nMend: describe them as int8"):
        compile_kernel(plain, {"x_desc": "tensordesc<i1[16,16]>", "y_ptr": "*i1"}, dict(R=16, C=16))


@pytest.mark.parametrize("kernel", [by_words, plain])
@pytest.mark.parametrize("make", [mimw.TensorDescriptor.from_tensor, lambda x, block: Stock(
    HostArray(x), list(x.shape), [step // x.itemsize for step in x.strides], block)], ids=["ours", "Triton's"])
def test_narrow_blocks_are_refused_when_simulating(kernel, make):
    x, y = np.arange(64 * 8, dtype=np.float32).reshape(64, 8), np.zeros((16, 4), np.float32)
    mimw.simulate(kernel, (1, ), make(x, [16, 4]), y, R=16, C=4)
    assert (y == x[:16, :4]).all()
    with pytest.raises(LaunchError, match=NARROW):
        mimw.simulate(kernel, (1, ), make(x, [16, 2]), y, R=16, C=2)


def test_what_tritons_class_leaves_to_the_driver_is_refused_when_simulating():
    descriptor = Stock(HostArray(np.zeros((2, 64), np.float16)), [2, 64], [1 << 39, 1], [1, 64])
    with pytest.raises(LaunchError, match="the tensor descriptor given as 'x_desc' is invalid: the stride of its dimension 0"):
        mimw.simulate(plain, (1, ), descriptor, np.zeros(64, np.float16), R=1, C=64)


def test_an_error_of_the_driver_is_told_in_our_words(monkeypatch):
    """A launch that ends in Triton's error is looked at again; other errors stay what they are."""
    bad = Stock(HostArray(np.zeros((2, 64), np.float16)), [2, 64], [1 << 39, 1], [1, 64])
    tensor = SimpleNamespace(dtype=np.dtype(np.float16), data_ptr=lambda: 256)
    good, in_numpy = Stock(tensor, [2, 64], [64, 1], [1, 64]), Stock(bad.base, [2, 64], [64, 1], [1, 64])

    def launch(*args, **kwargs):
        raise RuntimeError("Triton Error [CUDA]: Failed to create tensor map descriptor")

    monkeypatch.setattr(sys.modules["mimw.runtime.jit"], "_LAUNCH", launch)
    monkeypatch.setattr(sys.modules["mimw.runtime.jit"], "simulating", lambda: False)
    monkeypatch.setattr(type(plain), "_refuse_arguments", lambda *args: None)        # it asks the GPU
    with pytest.raises(LaunchError, match="given as 'x_desc' is invalid: the stride"):
        plain[(1, )](bad, None, R=1, C=64)
    with pytest.raises(LaunchError, match="given as 'x_desc' is invalid: the stride"):
        plain[(1, )](x_desc=bad, y_ptr=None, R=1, C=64)
    with pytest.raises(LaunchError, match="x_desc is an array of numpy"):
        plain[(1, )](in_numpy, None, R=1, C=64)
    with pytest.raises(RuntimeError, match="Failed to create"):
        plain[(1, )](good, None, R=1, C=64)


# ---- made in the kernel --------------------------------------------------------------------------------------------------

@mimw.jit
def made_here(x_ptr, y_ptr, ROWS: tl.constexpr, STRIDE: tl.constexpr, C: tl.constexpr, SLOT: tl.constexpr):
    if SLOT:
        desc = tlx.make_tensor_descriptor(None, x_ptr, [ROWS, 64], [STRIDE, 1], [16, C])
        tile = tlx.local_alloc((16, C), tl.float16, 1)
        full = tlx.alloc_barriers(1)
        tlx.barrier_expect_bytes(full[0], 16 * C * 2)
        tlx.async_descriptor_load(desc, tile[0], [0, 0], full[0])
        tlx.barrier_wait(full[0], 0)
        block = tlx.local_load(tile[0])
    else:
        tlx.fence("gpu")
        block = tl.make_tensor_descriptor(x_ptr, [ROWS, 64], [STRIDE, 1], [16, C]).load([0, 0])
    tl.store(y_ptr + tl.arange(0, 16)[:, None] * C + tl.arange(0, C)[None, :], block)


def compiled(**constants):
    return compile_kernel(made_here, {"x_ptr": "*fp16", "y_ptr": "*fp16"}, dict(ROWS=32, STRIDE=64, C=64) | constants)


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize("constants, says", [
    (dict(ROWS=0), "its dimension 0 has extent 0"), (dict(STRIDE=1 << 39), "1099511627776 bytes, and strides are 0 to"),
    (dict(STRIDE=-64), "-128 bytes, and strides are 0 to")])
def test_constants_of_descriptors_made_in_a_kernel(slot, constants, says):
    compiled(SLOT=slot)
    with pytest.raises(triton.CompilationError, match=f"this tensor descriptor is invalid: .*{says}") as caught:
        compiled(SLOT=slot, **constants)
    assert isinstance(caught.value.__cause__, KernelError) and "make_tensor_descriptor" in str(caught.value)


def test_a_narrow_block_made_in_a_kernel():
    with pytest.raises(triton.CompilationError, match="a row of its block is 4 elements x 2 bytes = 8 bytes") as caught:
        compiled(SLOT=False, C=4)
    assert "Mend: make the block's last extent 8 or more" in str(caught.value)


# ---- blocks beyond a box: 256 elements a dimension, and 128 bytes a row where it swizzles ----------------------------------

@mimw.jit
def block_of(x_desc, y_ptr, SHAPE: tl.constexpr, ELEMENTS: tl.constexpr, WARPS: tl.constexpr):
    tile = tlx.local_alloc(SHAPE, tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    zeros: tl.constexpr = [0] * len(SHAPE)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tl.store(y_ptr + tl.arange(0, ELEMENTS), tlx.local_load(tile[0]).reshape(ELEMENTS))
        with tlx.async_task(num_warps=WARPS):
            tlx.barrier_expect_bytes(full[0], ELEMENTS * tlx.size_of(tlx.dtype_of(x_desc)))
            tlx.async_descriptor_load(x_desc, tile[0], zeros, full[0])


WIDE = [((512, 64), (256, 64)), ((512, 8), (256, 8)), ((8, 512), (8, 64)), ((4, 512), (4, 256)), ((1024, ), (256, )),
        ((2, 512, 16), (2, 256, 16))]


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("block, box", WIDE)
def test_blocks_of_more_than_a_box_are_copied_in_parts(machine, block, box, warps):
    """The rows and columns beyond the tensor's end are part of some boxes: ragged extents."""
    elements = int(np.prod(block))
    shape = tuple(extent - 3 if extent > 16 and axis < len(block) - 1 else extent for axis, extent in enumerate(block))
    x, y = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float16), np.full(elements, 7, np.float16)
    machine.launch(block_of, (1, ), mimw.TensorDescriptor.from_tensor(x, list(block)), y, block, elements, warps)
    expected = np.zeros(block, np.float16)
    expected[tuple(slice(extent) for extent in shape)] = x
    assert (y.reshape(block) == expected).all()


@pytest.mark.parametrize("block, box", WIDE)
def test_the_encoder_is_asked_for_boxes_it_can_do(block, box):
    signature = {"x_desc": f"tensordesc<fp16[{','.join(map(str, block))}]>", "y_ptr": "*fp16"}
    meta, = to_ttgir(block_of, signature, dict(SHAPE=block, ELEMENTS=int(np.prod(block)), WARPS=1)).metadata.tensordesc_meta
    swizzle = {0: 1 << 30, 1: 32, 2: 64, 3: 128}[meta["swizzle"]]
    assert tuple(meta["block_size"]) == box and max(box) <= 256 and box[-1] * 2 <= swizzle and box[-1] * 2 % 16 == 0


# ---- the driver ----------------------------------------------------------------------------------------------------------

RIGHT = dict(size=2, element=6, block=(16, 64), beyond=0, shape=(64, 64), strides=(64, 1), padding=0)
ENCODED = [{}, *(dict(block=(16, columns), size=size, element=element) for size, element in ((1, 0), (2, 6), (4, 7), (8, 5))
                 for columns in (1, 2, 4, 8, 16)),
           *(dict(beyond=beyond) for beyond in (4, 8, 16)),
           *(dict(strides=(stride, 1)) for stride in (60, 72, 0)),
           *(dict(shape=(2, 64), strides=(stride, 1)) for stride in (1 << 39, (1 << 39) - 8)),
           *(dict(size=1, element=0, shape=(extent, 16), strides=(16, 1)) for extent in (0, 1, MOST, 1 << 32)),
           *(dict(shape=(extent, extent), strides=(64, 1)) for extent in ((1 << 31) - 16, MOST)),
           dict(block=(64, ), shape=(64, ), strides=(1, )),
           dict(block=(4, 4, 16), shape=(4, 4, 16), strides=(112, 48, 1)),
           dict(block=(2, 2, 2, 2, 8), shape=(4, ) * 5, strides=(512, 128, 32, 8, 1)),
           *(dict(size=size, element=element, padding=1) for size, element in ((1, 0), (2, 6), (2, 9), (4, 7), (4, 3)))]


@pytest.mark.gpu
@pytest.mark.parametrize("change", ENCODED, ids=str)
def test_as_the_driver_has_it(change):
    """Ours refuses what the driver's encoder refuses, and besides only extents that a kernel cannot be told. `element` is a
    CUtensorMapDataType; 6 to 9 are floats."""
    import torch
    from triton.runtime import driver
    size, element, block, beyond, shape, strides, padding = (RIGHT | change).values()
    tensor = torch.empty(1 << 16, dtype=torch.int8, device="cuda")
    address = -(-tensor.data_ptr() // 256) * 256 + beyond
    ours = block_problem(block, size) or tensor_problem(address, shape, strides, len(block), size) or (
        padding and element not in (6, 7, 8, 9) and "nan of integers")
    try:
        driver.active.utils.fill_tma_descriptor_tiled(address, 0, size, element, list(block), list(shape), list(strides), padding)
        theirs = None
    except RuntimeError as error:
        theirs = str(error)
    assert bool(ours) == bool(theirs) or max(shape) > MOST, (ours, theirs)
