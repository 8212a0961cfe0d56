"""Plain arrays where a kernel wants tensor descriptors: the error says what to pass, with the shape of blocks where it is known."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.compiler.frontend.plain_pointers import mend_of_pointers
from mimw.runtime.compile_kernel import compile_kernel

X = np.zeros((64, 32), np.float16)


@mimw.jit
def loaded(source):
    tile, full = tlx.local_alloc((16, 32), tl.float16, 1), tlx.alloc_barriers(1)
    tlx.async_descriptor_load(source, tile[0], [0, 0], full[0])


@mimw.jit
def gathered(source):
    tile, full = tlx.local_alloc((16, 32), tl.float16, 1), tlx.alloc_barriers(1)
    tlx.async_descriptor_gather(source, tile[0], tl.arange(0, 16), 0, full[0])


@mimw.jit
def stored(source, target):
    tlx.alloc_barriers(1)
    tile = source.load([0, 0])
    target.store([0, 0], tile)


@mimw.jit
def made_inside(source, n):
    """A descriptor under the parameter's own name; the mistake is another."""
    source = tl.make_tensor_descriptor(source, [64, 32], [32, 1], [16, 32])
    source.store([0, 0], tl.zeros((16, 32), tl.float16))
    tl.store(n, 1)


@pytest.mark.parametrize("kernel, args, mend", [
    (loaded, 1, r"mimw.TensorDescriptor.from_tensor\(source, \[16, 32\]\) for the plain array"),
    (gathered, 1, r"mimw.TensorDescriptor.from_tensor\(source, block_shape\) for the plain array"),
    (stored, 2, r"`source` and `target` are plain arrays, and the kernel uses them as tensor descriptors: pass "
                r"mimw.TensorDescriptor.from_tensor\(source, block_shape\), "
                r"mimw.TensorDescriptor.from_tensor\(target, block_shape\)"),
])
def test_the_mend_names_the_argument(kernel, args, mend):
    with pytest.raises(Exception, match=mend):
        mimw.simulate(kernel, (1, ), *[X] * args)


def test_compiling_says_it_as_well():
    with pytest.raises(Exception, match="`target` is a plain array, and the kernel uses it as a tensor descriptor"):
        compile_kernel(stored, {"source": "tensordesc<fp16[16,32]>", "target": "*fp16"})


def test_other_mistakes_are_not_blamed_on_it():
    assert mend_of_pointers(made_inside, {"source": "*fp16", "n": "i32"}) == ""
    with pytest.raises(Exception) as refused:
        mimw.simulate(made_inside, (1, ), X, 7)
    assert "TensorDescriptor" not in str(refused.value)


@pytest.mark.parametrize("family", [tlx, tle])
def test_the_families_say_where_it_is(family):
    with pytest.raises(AttributeError, match="On the host it is mimw.TensorDescriptor"):
        family.TensorDescriptor
