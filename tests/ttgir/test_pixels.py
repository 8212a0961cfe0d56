"""Copies by TMA in im2col mode: what they bring, convolutions of Gluon's with them, what is found and what is refused."""

import re

import numpy as np
import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

import mimw
from mimw.errors import IllegalCopy, NotYet, SimulatorMisuse, TtgirError
from mimw.ir.lexer import Line
from mimw.ir.type_parser import parse_type
from mimw.simulator.memory.pixel_boxes import PixelBox
from tests.ttgir.modules import kernel, ran

PIXELS, CHANNELS = 64, 32


@gluon.jit
def moved(source, target, at, moved: gl.constexpr):
    tile = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, source.block_type.nbytes)
    tma.async_load_im2col(source, at, moved, full, tile)
    mbarrier.wait(full, 0)
    mbarrier.invalidate(full)
    tma.async_store(target, [0, 0], tile)
    tma.store_wait(0)


def images(x: torch.Tensor, lower, upper, steps=None, padding: str = "zero") -> TensorDescriptorIm2Col:
    layout = gl.NVMMASharedLayout.get_default_for([PIXELS, CHANNELS], gl.float16)
    return TensorDescriptorIm2Col.from_tensor(x, [PIXELS, CHANNELS], layout, padding, element_strides=steps,
                                              pixel_box_lower_corner=lower, pixel_box_upper_corner=upper)


def rows(x: torch.Tensor, block=(PIXELS, CHANNELS)) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(x, list(block), gl.NVMMASharedLayout.get_default_for(list(block), gl.float16))


def brought(x: torch.Tensor, at, by, *box) -> np.ndarray:
    y = torch.zeros(PIXELS, CHANNELS).half()
    mimw.simulate(moved, (1, ), images(x, *box), rows(y), tuple(at), tuple(by))
    return y.numpy()


def patches(x: np.ndarray, pad: int, r: int, s: int, step: int, taps: int) -> np.ndarray:
    """Row by row the pixels that tap (r, s) of a filter with so many taps a dimension meets."""
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    ends = [extent - taps + 1 for extent in padded.shape[1:3]]
    return padded[:, r:r + ends[0]:step, s:s + ends[1]:step].reshape(-1, x.shape[-1])


X = torch.randn(3, 9, 7, 64, generator=torch.Generator().manual_seed(1)).half()


@pytest.mark.parametrize("pad, r, s, step, channel", [(0, 0, 0, 1, 0), (1, 2, 1, 1, 32), (1, 1, 2, 2, 0), (2, 0, 3, 3, 32)])
def test_pixels_of_a_tap(pad, r, s, step, channel):
    """The box is where the first tap of a filter of 4 x 4 goes; a tap's copy is moved by its place in the filter."""
    wanted = patches(X.numpy(), pad, r, s, step, 4)[:PIXELS, channel:channel + CHANNELS]
    found = brought(X, (0, -pad, -pad, channel), (r, s), [-pad] * 2, [pad - 3] * 2, [1, step, step, 1])
    assert (found[:len(wanted)] == wanted).all() and not found[len(wanted):].any()


def test_a_copy_begins_within_an_image_and_goes_on_in_the_next():
    wanted = X.numpy().reshape(-1, 64)[10:10 + PIXELS, :CHANNELS]
    assert (brought(X, (0, 1, 3, 0), (0, 0), [0, 0], [0, 0]) == wanted).all()


def test_signals_and_volumes():
    """One spatial dimension, and three."""
    lines, volumes = X.reshape(3, 63, 64), X.reshape(3, 3, 3, 7, 64)
    assert (brought(lines, (1, 4, 0), (2, ), [0], [0]) == lines.numpy().reshape(-1, 64)[69:69 + PIXELS, :CHANNELS])[:57].all()
    found = brought(volumes, (0, 0, -1, 0, 0), (0, 1, 0), [0, -1, 0], [0, -1, 0])
    assert (found == X.numpy().reshape(-1, 64)[:PIXELS, :CHANNELS]).all()


def test_what_is_outside_of_an_image_may_be_nan():
    y = torch.zeros(PIXELS, CHANNELS).half()
    mimw.simulate(moved, (1, ), images(X, [-1, -1], [-1, -1], padding="nan"), rows(y), (0, -1, -1, 0), (0, 0))
    assert y[:8].isnan().all() and (y[8] == X[0, 0, 0, :CHANNELS]).all()


@gluon.jit
def convolved(source, filters, target, TAPS: gl.constexpr, PAD: gl.constexpr, WAITS: gl.constexpr, BYTES: gl.constexpr):
    """Each tap of the filter: pixels times the tap's matrix, 64 pixels of the result a program, of one image each."""
    tile = gl.allocate_shared_memory(source.dtype, [2] + source.block_shape, source.layout)
    taps = gl.allocate_shared_memory(source.dtype, [2] + filters.block_shape, filters.layout)
    full = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    sums_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16])
    sums = gl.zeros((64, 32), gl.float32, sums_layout)
    for step in gl.static_range(TAPS * TAPS):
        mbarrier.expect(full.index(step % 2), source.block_type.nbytes + filters.block_type.nbytes - BYTES)
        tma.async_load_im2col(source, [gl.program_id(0), -PAD, -PAD, 0], [step // TAPS, step % TAPS], full.index(step % 2),
                              tile.index(step % 2))
        tma.async_load(filters, [step * 32, 0], full.index(step % 2), taps.index(step % 2))
        if WAITS:
            mbarrier.wait(full.index(step % 2), step // 2 % 2)
        sums = warpgroup_mma(tile.index(step % 2), taps.index(step % 2), sums, is_async=True)
        sums = warpgroup_mma_wait(0, deps=[sums])
    for i in gl.static_range(2):
        mbarrier.wait(full.index(i), (TAPS * TAPS - 1 - i) // 2 % 2)
        mbarrier.invalidate(full.index(i))
    tile.index(0).store(sums.to(gl.float16))
    fence_async_shared()
    tma.async_store(target, [gl.program_id(0) * 64, 0], tile.index(0))
    tma.store_wait(0)


def _convolution(waits: bool = True, less: int = 0, taps: int = 3):
    generator = torch.Generator().manual_seed(2)
    x, w = (torch.randn(*shape, generator=generator).half() / 8 for shape in ((2, 8, 8, 32), (taps * taps * 32, 32)))
    wanted = sum(patches(x.float().numpy(), 1, r, s, 1, taps) @ w.float().numpy()[(r * taps + s) * 32:][:32]
                 for r in range(taps) for s in range(taps))
    given = images(x, [-1, -1], [1 - taps + 1] * 2), rows(w, (32, 32)), rows(torch.zeros(128, 32).half())
    return mimw.check(convolved, (2, ), *given, TAPS=taps, PAD=1, WAITS=waits, BYTES=less, target="sm_90a", seeds=2, shrink=False,
                      expected={"target": wanted}, rounds=False)


def test_a_convolution_is_right():
    report = _convolution()
    assert report.ok and "'target' as expected" in report.results


def test_a_product_of_pixels_that_have_not_come_is_found():
    (finding, *_) = _convolution(waits=False).findings
    lines = [line.strip() for line in open(__file__)]
    assert finding.kind == "CopyReadEarly" and "TMA load" in finding.message
    assert any("warpgroup_mma(" in lines[site.line - 1] for site in finding.sites)


def test_bytes_of_pixels_are_counted():
    kinds = [_convolution(less=less).findings[0].kind for less in (2048, -2048)]
    assert kinds == ["CopyReadEarly", "BytesNeverSent"]


def test_a_convolution_is_predicted():
    x = torch.zeros(2, 8, 8, 32).half()
    told = mimw.predict(convolved, (2, ), images(x, [-1, -1], [-1, -1]), rows(torch.zeros(288, 32).half(), (32, 32)),
                        rows(torch.zeros(128, 32).half()), TAPS=3, PAD=1, WAITS=True, BYTES=0, target="sm_90a")
    assert 2000 < told.cycles < 20000


@pytest.mark.parametrize("at, by, words", [
    ((0, -1, 0, 0), (0, 0), r"first pixel, \(-1, 0\), lies outside of the box of pixels, \[0, 8\] x \[0, 6\]"),
    ((0, 0, 0, 0), (-1, 0), r"its offsets, .* are \(65535, 0\), .* end at 255"),
    ((0, 0, 0, 4), (0, 0), "begins at element 4 of a row")])
def test_copies_that_cannot_be(at, by, words):
    with pytest.raises(IllegalCopy, match=words):
        brought(X, at, by, [0, 0], [0, 0])


@pytest.mark.parametrize("box, words", [
    (([0, 0], [-9, 0]), r"its box, \[0, 0\] to \[-9, 0\], has no pixel in images of \(9, 7\)"),
    (([0, 0], [0, 0], [2, 1, 1, 1]), "its steps are")])
def test_boxes_that_cannot_be(box, words):
    with pytest.raises(SimulatorMisuse, match=words):
        brought(X, (0, 0, 0, 0), (0, 0), *box)


ON_A_GPU = [
    (X, (0, 0, 0, 0), (2, 1), [0, 0], [-3, -3]), (X, (0, -1, -1, 32), (1, 2), [-1, -1], [-2, -2], [1, 2, 2, 1]),
    (X, (0, -2, -2, 0), (0, 3), [-2, -2], [-1, -1], [1, 3, 3, 1]), (X, (2, 5, 4, 0), (0, 0), [0, 0], [0, 0]),
    (X.reshape(3, 63, 64), (1, 4, 0), (2, ), [0], [0]),
    (X.reshape(3, 3, 3, 7, 64), (0, 0, -1, 0, 0), (0, 1, 0), [0, -1, 0], [0, -1, 0])]


@pytest.mark.gpu
@pytest.mark.parametrize("case", ON_A_GPU, ids=["stride 1", "stride 2", "stride 3", "the last image", "signals", "volumes"])
def test_on_a_gpu_the_same_pixels_come(case):
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("the kernel copies by TMA")
    x, at, by, *box = case
    y = torch.zeros(PIXELS, CHANNELS, device="cuda").half()
    moved[(1, )](images(x.cuda(), *box), rows(y), at, by)
    assert (y.cpu().numpy() == brought(*case)).all()


TEXT = """%c0 = arith.constant 0 : i32
    %z = arith.constant 0 : i16
    %true = arith.constant true
    %full = ttg.local_alloc : () -> BARRIER
    ttng.init_barrier %full, 1 : BARRIER
    %tile = ttg.local_alloc : () -> SLOT
    ttng.async_tma_copy_global_to_local %x[%c0, %c0, %c0, %c0] offsets = [%z, %z] %tile, %full, %true : IMAGES, BARRIER -> SLOT"""


def test_another_descriptor_and_other_coordinates():
    """By hand: an argument without a box of pixels; coordinates of another rank than the tensor's."""
    text = kernel("%x: IMAGES", TEXT).replace("IMAGES", "!ttng.tensordesc_im2col<64x64xf16, #tma>")
    with pytest.raises(SimulatorMisuse, match="it has no box of pixels"):
        ran(text, rows(X.reshape(-1, 64), (64, 64)))
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    lines = TensorDescriptorIm2Col.from_tensor(X.reshape(3, 63, 64), [64, 64], layout, pixel_box_lower_corner=[0],
                                               pixel_box_upper_corner=[0])
    with pytest.raises(SimulatorMisuse, match="4 coordinates and 2 offsets, and the tensor has 3 dimensions"):
        ran(text, lines)


def test_several_ctas_are_refused():
    text = kernel("%x: IMAGES", TEXT, ctas=2).replace("IMAGES", "!ttng.tensordesc_im2col<64x64xf16, #tma>")
    with pytest.raises(TtgirError, match="layout"):
        ran(text, images(X, [0, 0], [0, 0]))
    text = re.sub(r"(#(?:tma|barrier) = .*?)(}>\n)", r"\1, CGALayout = [[0, 0]]\2", text)
    with pytest.raises(NotYet, match="type !ttng.tensordesc_im2col.* has no meaning"):
        ran(text.replace("order = [0], CGALayout = [[0, 0]]", "order = [0], CGALayout = [[0]]"), images(X, [0, 0], [0, 0]))


def test_a_box_is_walked_through():
    box = PixelBox((-1, -1), (-1, -1), (1, 1))
    assert list(box.runs((4, 4), (0, 1, 2), (0, 0), 16)) == [
        ((0, 1, 2), 1), ((0, 2, -1), 4), ((1, -1, -1), 4), ((1, 0, -1), 4), ((1, 1, -1), 3)]
    assert list(PixelBox((0, 0), (0, 0), (2, 3)).runs((4, 4), (0, 0, 0), (1, 1), 5)) == [
        ((0, 1, 1), 1), ((0, 1, 4), 1), ((0, 3, 1), 1), ((0, 3, 4), 1), ((1, 1, 1), 1)]


def test_the_type_is_read_as_it_is_written():
    text = "desc<fp16[64, 32] pixels>"
    assert str(parse_type(Line(text, "k.ir", 1))) == text
