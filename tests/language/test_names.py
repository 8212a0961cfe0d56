"""Names that a family does not have: which one was meant, with the line inside a kernel."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw import tle, tlx
from mimw.compiler.triton_port.runtime import MockTensor
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def misspelt(x):
    tile = tlx.local_alocc((32, ), tl.float32, 1)  # here
    tl.store(x, tlx.local_load(tile[0]))


@mimw.jit
def misspelt_helper(x):
    tle.gpu.aloc((32, ), tl.float32)  # here


@mimw.jit
def with_helper(x):
    misspelt_helper(x)


@mimw.jit
def misspelt_tl(x):
    tlx.clock64()
    tl.store(x, tl.arrange(0, 1))  # here


USES = {
    "simulate": lambda kernel: mimw.simulate(kernel, (1, ), np.zeros(1, np.float32)),
    "warmup": lambda kernel: kernel.warmup(MockTensor(tl.float32), grid=(1, )),
    "compile": lambda kernel: compile_kernel(kernel, {"x": "*fp32"}),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("kernel, text", [
    (misspelt, "tlx has no 'local_alocc'. Did you mean tlx.local_alloc"),
    (misspelt_tl, "tl has no 'arrange'. Did you mean tl.arange"),
    (with_helper, "tle.gpu has no 'aloc'. Did you mean tle.gpu.alloc?")])
def test_in_a_kernel_the_line_is_named(kernel, text, use):
    with pytest.raises(triton.CompilationError) as caught:
        use(kernel)
    assert text in str(caught.value) and "# here" in str(caught.value) and isinstance(caught.value.__cause__, AttributeError)


@pytest.mark.parametrize("family, name, text", [
    (tlx, "barier_wait", "tlx has no 'barier_wait'. Did you mean tlx.barrier_wait"),
    (tlx, "pipe", "tlx has no 'pipe', but there is tle.pipe"),
    (tlx, "warp_spce", "Did you mean tlx.warp_spec"),
    (tle, "barrier_wait", "tle has no 'barrier_wait', but there is tlx.barrier_wait"),
    (tle, "device_mash", "tle has no 'device_mash'. Did you mean tle.device_mesh?"),
    (tle.gpu, "warp_specialise", "Did you mean tle.gpu.warp_specialize?"),
    (tle.raw, "Inptu", "Did you mean tle.raw.Input?"),
    (tlx, "qqq", "tlx has no 'qqq'"),
])
def test_outside_too(family, name, text):
    with pytest.raises(AttributeError) as caught:
        getattr(family, name)
    assert text in str(caught.value) and str(caught.value).endswith(("?", text))


def test_names_that_are_there_and_probes_for_others():
    assert tlx.local_alloc is tlx.mem_ops.local_alloc and tle.gpu.alloc
    assert not hasattr(tlx, "__wrapped__") and not hasattr(tle, "nothing_like_it")
    assert getattr(tle.dsa, "nothing", None) is None
