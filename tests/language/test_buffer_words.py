"""Words of AMD's buffer instructions: their arguments, and what they record."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError

from .harness import Kernel


@pytest.fixture
def amd():
    return Kernel("gfx950")


def operands(kernel, element=tl.float32, shape=(64, )):
    return kernel.tensor("p", tl.pointer_type(element)), kernel.tensor("o", tl.int32, *shape)


def test_what_a_load_records(amd):
    base, offsets = operands(amd)
    loaded = amd(tlx.buffer_load, base, offsets, mask=amd.tensor("m", tl.int1), other=1, cache=".cg", contiguity=4)
    assert loaded.dtype == tl.float32 and loaded.type.shape == (64, )
    (op, ) = amd.program().named("buffer_load")
    assert (op.cache, op.contiguity, op.is_volatile) == (".cg", 4, False)
    assert [str(value.type) for value in (op.base, op.at, op.pointer)] == ["*fp32", "i32[64]", "*fp32[64]"]
    assert [str(value.type) for value in (op.mask, op.other)] == ["i1[64]", "fp32[64]"]


def test_operands_are_broadcast_and_cast(amd):
    base, column = operands(amd, tl.float16, (64, 1))
    mask = amd.tensor("m", tl.int1, 1, 32)
    assert amd(tlx.buffer_load, base, column, mask=mask, other=2).type.shape == (64, 32)
    amd(tlx.buffer_store, 1, base, column, mask=mask)
    (store, ) = amd.program().named("buffer_store")
    assert str(store.value.type) == "fp16[64, 32]" and store.at.type.shape == (64, 32)
    old = amd(tlx.buffer_atomic_add, base, column, 1.0, mask=mask, contiguity=2)
    assert old.dtype == tl.float16 and old.type.shape == (64, 32)


def test_booleans_lie_in_bytes(amd):
    base, offsets = operands(amd, tl.int1)
    loaded = amd(tlx.buffer_load, base, offsets)
    (op, ) = amd.program().named("buffer_load")
    assert loaded.dtype == tl.int1 and str(op.result.type) == "i8[64]"


def test_loads_past_the_caches_are_volatile(amd):
    base, offsets = operands(amd)
    amd(tlx.buffer_load, base, offsets, cache=".cv")
    (op, ) = amd.program().named("buffer_load")
    assert op.is_volatile


@pytest.mark.parametrize("args, kwargs, text", [
    ("oo", {}, "ptr must be a scalar pointer type"), ("pn", {}, "offsets must be a tensor type"),
    ("pw", {}, "offsets element type must be int32 or uint32"), ("po", dict(other=0), "other needs a mask"),
    ("po", dict(contiguity=3), "contiguity must be a positive power of two"),
    ("po", dict(contiguity=0), "contiguity must be a positive power of two")])
def test_loads_that_are_refused(amd, args, kwargs, text):
    known = dict(p=tl.pointer_type(tl.float32), n=tl.int32)
    tiles = dict(o=tl.int32, w=tl.int64)
    given = [amd.tensor(name, known[name]) if name in known else amd.tensor(name, tiles[name], 64) for name in args]
    with pytest.raises(AssertionError, match=text):
        amd(tlx.buffer_load, *given, **kwargs)


def test_caches_semantics_and_masks_that_are_refused(amd):
    base, offsets = operands(amd)
    with pytest.raises(ValueError, match=r"buffer_load: the cache modifier must be one of .*'.cv'.*, got '.wb'"):
        amd(tlx.buffer_load, base, offsets, cache=".wb")
    with pytest.raises(ValueError, match=r"buffer_store: the cache modifier must be one of .*'.wt'.*, got '.cv'"):
        amd(tlx.buffer_store, 1.0, base, offsets, cache=".cv")
    with pytest.raises(KernelError, match="buffer_store: `mask` must be a tensor of booleans"):
        amd(tlx.buffer_store, 1.0, base, offsets, mask=offsets)
    with pytest.raises(ValueError, match="sem must be one of .*, got 'strong'"):
        amd(tlx.buffer_atomic_add, base, offsets, 1.0, sem="strong")
    with pytest.raises(ValueError, match="scope must be one of .*, got 'block'"):
        amd(tlx.buffer_atomic_add, base, offsets, 1.0, scope="block")


@pytest.mark.parametrize("element, kwargs, text", [
    (tl.int8, {}, "buffer_atomic_add supports fp16, bf16, fp32, fp64, int32, int64, got int8"),
    (tl.float16, {}, "added two at once, which needs contiguity >= 2"),
    (tl.bfloat16, dict(contiguity=1), "added two at once, which needs contiguity >= 2")])
def test_elements_that_cannot_be_added(amd, element, kwargs, text):
    with pytest.raises(AssertionError, match=text):
        amd(tlx.buffer_atomic_add, *operands(amd, element), 1, **kwargs)


def test_a_row_of_one_element_has_no_pair(amd):
    with pytest.raises(AssertionError, match="a row of offsets has one"):
        amd(tlx.buffer_atomic_add, *operands(amd, tl.float16, (64, 1)), 1.0, contiguity=2)


def test_copies_into_buffers_that_do_not_fit(amd):
    base, offsets = operands(amd)
    tiles = amd(tlx.local_alloc, (64, ), tl.float32, 2)
    for dest, text in ((None, "`dest` must be a buffered_tensor"), (tiles, "an array of 2"),
                       (amd(tlx.local_alloc, (32, ), tl.float32, 1).at(0, amd.semantic), r"shape \[64\], the buffer \[32\]"),
                       (amd(tlx.local_alloc, (64, ), tl.int32, 1).at(0, amd.semantic), "`ptr` is to fp32, the buffer holds int32")):
        with pytest.raises(KernelError, match=text):
            amd(tlx.buffer_load_to_local, dest, base, offsets)
    assert isinstance(amd(tlx.buffer_load_to_local, tiles.at(1, amd.semantic), base, offsets), tlx.async_token)
