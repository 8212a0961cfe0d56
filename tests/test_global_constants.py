"""A global `tl.constexpr` that changes after a kernel's first run: whatever is done next is of the new value, and of the old one
again once that is back; what was compiled before says so when it is asked for the program that it has not kept."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw import tlx
from mimw.compiler.triton_port.runtime import MockTensor
from mimw.errors import GlobalChanged
from mimw.runtime.compile_kernel import compile_kernel

SCALE = tl.constexpr(2)
OF_HELPER = tl.constexpr(1)
i = 7       # a script's own variable, of the name that a comprehension in a kernel has


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


@mimw.jit
def with_comprehension(x, y):
    at = tl.arange(0, 16)
    tlx.fence("gpu")
    tiles = [tl.load(x + at) + i for i in range(2)]
    tl.store(y + at, tiles[0] + tiles[1])


@triton.jit
def stock_with_helper(x, y):
    at = tl.arange(0, 16)
    tl.store(y + at, shifted(tl.load(x + at)))


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
def test_a_global_that_is_gone_is_refused_by_its_name(use, monkeypatch):
    use(scaled)
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises((triton.CompilationError, RuntimeError), match="SCALE"):
        use(scaled)
    monkeypatch.undo()
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    use(scaled)


def test_a_new_value_counts_and_the_old_one_is_found_again(monkeypatch):
    x, y = arrays()

    def values():
        mimw.simulate(scaled, (1, ), x, y)
        simulated = y.copy()
        assert (scaled[1, ](x, y).asm["ttgir"] and y == simulated).all()
        return y[1]

    assert values() == 2
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(3))
    assert values() == 3
    programs = len(scaled._simulated_programs)
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(2))     # another object, the same value
    assert values() == 2 and len(scaled._simulated_programs) == programs


@pytest.mark.parametrize("kernel", [with_helper, another_with_helper])
def test_so_do_the_globals_of_helpers_also_of_those_that_another_kernel_compiled_first(kernel, monkeypatch):
    x, y = arrays()
    mimw.simulate(with_helper, (1, ), x, y)
    assert (y == x + 1).all()
    monkeypatch.setitem(globals(), "OF_HELPER", tl.constexpr(5))
    mimw.simulate(kernel, (1, ), x, y)
    assert (y == x + 5 + (kernel is another_with_helper)).all()


def test_the_variable_of_a_comprehension_is_not_the_scripts(monkeypatch):
    """Triton's own finder takes it for a global of the kernel's, and refuses the launch once it has changed."""
    x, y = arrays()
    mimw.simulate(with_comprehension, (1, ), x, y)
    programs = dict(with_comprehension._simulated_programs)
    monkeypatch.setitem(globals(), "i", 8)
    mimw.simulate(with_comprehension, (1, ), x, y)
    assert (y == 2 * x + 1).all() and with_comprehension._simulated_programs == programs


def test_what_was_compiled_before_says_that_its_program_is_another_one_now(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compile_kernel(scaled, {"x": "*i32", "y": "*i32"})
    found = compile_kernel(scaled, {"x": "*i32", "y": "*i32"})
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(3))
    with pytest.raises(GlobalChanged, match="scaled was compiled with SCALE = 2, which is 3 now"):
        found.program
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(2))
    assert found.program.orchestrates()


def test_a_kernel_of_stock_triton_still_learns_what_a_helper_of_ours_names(monkeypatch):
    key = stock_with_helper.cache_key
    assert {name: value.value for (name, _), (value, _) in stock_with_helper.used_global_vals.items()} == {"OF_HELPER": 1}
    before = shifted.cache_key
    monkeypatch.setitem(globals(), "OF_HELPER", tl.constexpr(5))
    assert shifted.cache_key != before and key


@pytest.mark.parametrize("kernel, expected", [(walrus, 6), (nested, 4), (listed, 3)])
def test_names_of_a_kernels_own_may_be_those_of_the_scripts_arrays(kernel, expected):
    x = np.zeros(1, np.float32)
    for _ in range(2):
        mimw.simulate(kernel, (1, ), x)
    assert x[0] == expected
    compile_kernel(kernel, {"x": "*fp32"})


def test_an_array_that_is_no_argument_is_told_with_its_line():
    with pytest.raises(triton.CompilationError, match="(?s)`ARRAY` is a variable of the file .ndarray., which.*in names_an_array"):
        mimw.simulate(names_an_array, (1, ), np.zeros(1, np.float32))
