"""The words of AMD's data mover as they are called: what is recorded, and what is refused at the author's line."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError
from mimw.ir.data_mover import layout_problem, tensor_problem, warps_problem
from mimw.ir.layouts import NvmmaShared, PaddedShared, SwizzledShared

from .harness import Kernel


@pytest.fixture
def amd():
    return Kernel("gfx1250")


@pytest.fixture
def desc(amd):
    return amd.descriptor("d", tl.float16, 64, 64)


@pytest.fixture
def tiles(amd):
    return amd(tlx.local_alloc, (64, 64), tl.float16, 2)


CALLS = {"async_amd_descriptor_load": (None, None, [0, 0]), "async_amd_descriptor_store": (None, None, [0, 0]),
         "amd_descriptor_prefetch_tensor": (None, [0, 0]), "async_amd_descriptor_wait": (),
         "update_tensor_descriptor": (None, [0, 0]), "async_amd_descriptor_load_fused": ([(None, None, 1), (None, None, 2)], )}


@pytest.mark.parametrize("arch, chip", [("sm90", "sm_90a"), ("gfx950", "gfx950")])
@pytest.mark.parametrize("name", CALLS)
def test_other_chips(name, arch, chip):
    with pytest.raises(AssertionError, match=f"{name} is only available on TDM-capable targets, not on {chip}"):
        Kernel(arch)(getattr(tlx, name), *CALLS[name])


def test_what_is_no_descriptor_and_no_buffer(amd, desc, tiles):
    tile = amd(tlx.local_view, tiles, 0)
    other = amd(tlx.local_view, amd(tlx.local_alloc, (64, 32), tl.float16, 1), 0)
    for word in (tlx.async_amd_descriptor_load, tlx.async_amd_descriptor_store):
        for args, text in [((tile, tile, [0, 0]), "expected a tensor descriptor"),
                           ((desc, desc, [0, 0]), "must be a buffered_tensor"),
                           ((desc, tiles, [0, 0]), "must be one buffer, but it is an array of 2"),
                           ((desc, other, [0, 0]), r"the descriptor's blocks are fp16\[64, 64\]")]:
            with pytest.raises(KernelError, match=text):
                amd(word, *args)
        with pytest.raises(AssertionError, match="expected 2 offsets, but got 1"):
            amd(word, desc, tile, [0])
    for offsets, got in (([0], "1"), (None, "none")):
        with pytest.raises(AssertionError, match=f"expected 2 offsets, but got {got}"):
            amd(tlx.amd_descriptor_prefetch_tensor, desc, offsets)


def test_fused(amd, desc, tiles):
    fused, (a, b) = tlx.async_amd_descriptor_load_fused, (amd(tlx.local_view, tiles, slot) for slot in range(2))
    flat = amd.descriptor("e", tl.float16, 64)
    for members, kind, text in [
            ([(desc, a, 1)], ValueError, "2 to 4 members, got 1"), ([(desc, a, 1)] * 5, ValueError, "2 to 4 members, got 5"),
            ([(desc, a, 1), (desc, b)], TypeError, "a member is"), ([(desc, a, 1), (desc, b, None)], TypeError, "a member is"),
            ([(desc, a, 1), (a, b, 2)], TypeError, "expected a tensor descriptor"),
            ([(desc, a, 1), (desc, b, 3)], ValueError, "disjoint"), ([(desc, a, 0), (desc, b, 3)], ValueError, "no warp is in it"),
            ([(desc, a, 6), (desc, b, 1)], ValueError, "1, 2, are not all those"),
            ([(desc, a, 1), (desc, b, 16)], KernelError, "it has warp 4, and the task has 4"),
            ([(desc, a, 1), (flat, b, 2)], ValueError, "one rank")]:
        with pytest.raises(kind, match=text):
            amd(fused, members)
    with pytest.raises(ValueError, match="cache_modifier"):
        amd(fused, [(desc, a, 1), (desc, b, 2)], ".wb")


def test_waits(amd):
    for args, kwargs, kind, text in [((1, ), {"tokens": [None]}, ValueError, "not both"), ((-1, ), {}, ValueError, "int >= 0"),
                                     ((), {"tokens": [3]}, KernelError, "must hold async_tokens")]:
        with pytest.raises(kind, match=text):
            amd(tlx.async_amd_descriptor_wait, *args, **kwargs)


def test_updates(amd, desc):
    for kwargs, text in [({}, "at least one"), (dict(add_offsets=[0]), "add_offsets needs 2 entries, got 1"),
                         (dict(set_bounds=[0]), "set_bounds needs 2 entries"),
                         (dict(set_bounds=[1, 1], clamp_bounds=True), "clamp"),
                         (dict(add_offsets=[0, 0], set_bounds=[1, 1], clamp_bounds=True), "excludes set_bounds")]:
        with pytest.raises(ValueError, match=text):
            amd(tlx.update_tensor_descriptor, desc, **kwargs)
    moved = amd(tlx.update_tensor_descriptor, desc, add_offsets=[0, 64])
    assert type(moved) is type(desc) and moved.type == desc.type and moved.handle is not desc.handle


# ---- the limits ------------------------------------------------------------------------------------------------------------

def padded(*pairs, shape=(8, 64)):
    return PaddedShared(pairs, (*((0, 1 << bit) for bit in range(6)), *((1 << bit, 0) for bit in range(3))), shape)


@pytest.mark.parametrize("layout, stores, problem", [
    (SwizzledShared(1, 1, 1, (1, 0)), False, ""), (SwizzledShared(1, 1, 1, (2, 1, 0)), True, ""),
    (SwizzledShared(8, 1, 8, (1, 0)), False, "no swizzle"), (SwizzledShared(1, 1, 1, (0, 1)), False, "must be the fastest"),
    (NvmmaShared(0, 16, 2), False, "plain rows"), (padded((64, 8)), True, ""), (padded((128, 8)), False, ""),
    (padded((128, 8)), True, "every 64 elements"), (padded((64, 8), (256, 8)), False, "one interval only"),
    (padded((2, 8)), False, "2 to 256 words of 4 bytes, and 2 elements of 16 bits are 1"), (padded((64, 512)), False, "are 256"),
    (padded((64, 8), shape=(8, 128)), False, "a tile of shape")])
def test_layouts(layout, stores, problem):
    found = layout_problem(layout, 16, (8, 64), stores)
    assert problem in found and bool(problem) == bool(found)


@pytest.mark.parametrize("mask, problem", [
    (0b1, ""), (0b1100, ""), (0b1010, ""), (0b110011, ""), (0b11110000, ""), (0, "no warp"), (0b110, "1, 2"), (0b111, "0, 1, 2"),
    (0b1001, "0, 3"), (1 << 8, "it has warp 8, and the task has 8")])
def test_masks(mask, problem):
    found = warps_problem(mask, 8)
    assert problem in found and bool(problem) == bool(found)


@pytest.mark.parametrize("shape, strides, problem", [
    ((4, 5), (5, 1), None), ((4, 0), (7, 1), None), ((4, 5), (5, 2), "stride 2"), ((4, 5), (-5, 1), "0 to 2.48"),
    ((4, 5), (1 << 48, 1), "0 to 2.48"), ((4, ), (1, ), "a block of 2")])
def test_tensors(shape, strides, problem):
    found = tensor_problem(shape, strides, 2)
    assert (found is None) == (problem is None) and (problem is None or pytest.importorskip("re").search(problem, found[0]))
