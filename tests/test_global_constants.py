"""A global `tl.constexpr` that changes after a kernel's first run: refused wherever the old value would come from a cache."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw import tlx
from mimw.compile import compile_kernel
from mimw.errors import GlobalChanged
from mimw.triton_port.runtime import MockTensor

SCALE = tl.constexpr(2)
OF_HELPER = tl.constexpr(1)


ARRAY = INNER = LISTED = np.zeros(4, np.float32)     # what a script has; kernels below have names of their own that are called so


@mimw.jit
def walrus(x):
    tl.store(x, (ARRAY := 3.0) + ARRAY)  # noqa: F841


@mimw.jit
def increased(INNER):
    return INNER + 1


@mimw.jit
def nested(x):
    tl.store(x, increased(INNER=increased(2.0)))


@mimw.jit
def listed(x):
    parts = [LISTED + 1 for LISTED in (1.0, 2.0)]
    tl.store(x, parts[1])


@mimw.jit
def names_an_array(x):
    tl.store(x, ARRAY)


@mimw.jit
def shifted(x):
    return x + OF_HELPER


@mimw.jit
def scaled(x, y):
    at = tl.arange(0, 16)
    tile = tlx.local_alloc((16, ), tl.int32, 1)
    tlx.local_store(tile[0], tl.load(x + at) * SCALE)
    tl.store(y + at, tlx.local_load(tile[0]))


@mimw.jit
def with_helper(x, y):
    at = tl.arange(0, 16)
    tl.store(y + at, shifted(tl.load(x + at)))


@mimw.jit
def another_with_helper(x, y):
    at = tl.arange(0, 16)
    tl.store(y + at, shifted(tl.load(x + at)) + 1)


def arrays():
    return np.arange(16, dtype=np.int32), np.zeros(16, np.int32)


USES = {
    "simulate": lambda kernel: mimw.simulate(kernel, (1, ), *arrays()),
    "check": lambda kernel: mimw.check(kernel, (1, ), *arrays(), seeds=1),
    "launch": lambda kernel: kernel[1, ](*arrays()),
    "warmup": lambda kernel: kernel.warmup(MockTensor(tl.int32), MockTensor(tl.int32), grid=(1, )),
    "compile": lambda kernel: compile_kernel(kernel, {"x": "*i32", "y": "*i32"}),
}


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_changed_global_is_refused_and_the_old_value_works_again(use, monkeypatch):
    first, second = arrays()
    mimw.simulate(scaled, (1, ), first, second)
    assert (second == 2 * first).all()
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(3))
    with pytest.raises(RuntimeError, match="scaled .*SCALE = 2, which is 3 now|Global variable SCALE has changed") as caught:
        use(scaled)
    assert not isinstance(caught.value, GlobalChanged) or "`SCALE: tl.constexpr`" in str(caught.value)
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(2))     # another object, the same value
    use(scaled)
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(RuntimeError, match="SCALE"):
        use(scaled)


@pytest.mark.parametrize("kernel", [with_helper, another_with_helper])
def test_so_are_the_globals_of_helpers_also_of_those_that_another_kernel_compiled_first(kernel, monkeypatch):
    first, second = arrays()
    mimw.simulate(with_helper, (1, ), first, second)
    assert (second == first + 1).all()
    monkeypatch.setitem(globals(), "OF_HELPER", tl.constexpr(5))
    with pytest.raises(GlobalChanged, match="OF_HELPER = 1, which is 5 now"):
        mimw.simulate(kernel, (1, ), first, second)


@pytest.mark.parametrize("kernel, expected", [(walrus, 6), (nested, 4), (listed, 3)])
def test_names_of_a_kernels_own_may_be_those_of_the_scripts_arrays(kernel, expected):
    x = np.zeros(1, np.float32)
    for _ in range(2):
        mimw.simulate(kernel, (1, ), x)
    assert x[0] == expected
    compile_kernel(kernel, {"x": "*fp32"})


def test_an_array_that_is_no_argument_is_told_with_its_line():
    with pytest.raises(triton.CompilationError, match="(?s)in names_an_array.*Cannot access global variable ARRAY"):
        mimw.simulate(names_an_array, (1, ), np.zeros(1, np.float32))
