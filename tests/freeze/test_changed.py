"""What a kernel names is another thing than at its last launch in this process: the next launch is of the new one, also through an
autotuner; a frozen one says what has changed."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import GlobalChanged
from tests.freeze.fake_gpu import Held
from tests.kernels.changing import CASES, OF_MODULE, as_defined, k_closure, k_default, k_global, k_module, k_own_default

X, Y = Held(0x1000), Held(0x2000)


def nothing_but_words(x, y):
    at = tl.arange(0, 128)
    tlx.fence("gpu")
    tl.store(y + at, tl.load(x + at) * 3)


@pytest.fixture(autouse=True)
def back_again():
    yield
    as_defined()
    for kernel, *_ in CASES.values():       # kernels of a module keep what was compiled, and so Triton's objects, to the end
        kernel.device_caches.clear()


def factors(compiled) -> set[float]:
    """By what a compiled kernel multiplies."""
    return {float(one) for one in re.findall(r"arith.constant (?:dense<)?([35]\.0+e\+00)", compiled.asm["ttgir"])}


@pytest.mark.parametrize("name", CASES)
def test_a_launch_is_of_what_is_there_now(name, gpu, monkeypatch):
    kernel, more, change = CASES[name]

    def launched():
        return factors(kernel[1, ](X, Y, *more))

    assert launched() == launched() == {3.0}
    with monkeypatch.context() as patch:
        change(patch)
        assert launched() == launched() == {5.0}
    as_defined()
    assert launched() == {3.0}


@pytest.mark.parametrize("name, told", [
    ("module", "OF_MODULE.factor = 3, which is 5 now"), ("the cell of its closure", "c = 3, which is 5 now"),
    ("an object that it names", "FACTORS, which is another one now"),
    ("a helper's default", "with_default __defaults__, which is another one now"),
    ("a helper that is defined again", "helper, which is another one now")])
def test_a_frozen_launch_says_what_has_changed(name, told, gpu, monkeypatch):
    kernel, more, change = CASES[name]
    frozen = kernel.freeze((1, ), X, Y, *more)
    assert frozen() is frozen(X, Y) is frozen.compiled and frozen.launch(70, 0x1000, 0x2000) is None
    launches = len(gpu.launches)
    with monkeypatch.context() as patch:
        change(patch)
        for way in (frozen, lambda: frozen(X, Y), lambda: frozen.launch(70, 0x1000, 0x2000),
                    lambda: frozen.launch_arrays(70, 0x1000, 0x2000)):
            with pytest.raises(GlobalChanged, match=f"{kernel.__name__} was compiled with {told}\nMend: compile, freeze or launch"):
                way()
        assert factors(kernel.freeze((1, ), X, Y, *more).compiled) == {5.0}
    as_defined()
    assert frozen() is frozen.compiled and len(gpu.launches) == launches + 1


def test_the_message_names_what_it_is_and_an_equal_value_is_no_change(gpu, monkeypatch):
    frozen = k_module.freeze((1, ), X, Y)
    monkeypatch.setattr(OF_MODULE, "factor", tl.constexpr(3))
    frozen()
    assert frozen._route.names.still()      # of the new object from now on, so the next launch is quick again
    monkeypatch.setattr(OF_MODULE, "factor", tl.constexpr(4))
    with pytest.raises(GlobalChanged, match="k_module was compiled with OF_MODULE.factor = 3, which is 4 now"):
        frozen()


def test_a_frozen_simulation_says_it_too(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    frozen = k_global.freeze((1, ), x, y)
    frozen()
    assert y[0] == 3
    CASES["global"][2](monkeypatch)
    with pytest.raises(GlobalChanged, match="CONSTANT = 3, which is 5 now"):
        frozen()


def test_the_kernels_own_default_is_bound_again(gpu, monkeypatch):
    _, _, change = CASES["the kernel's own default"]
    assert factors(k_own_default[1, ](X, Y, 5)) == {5.0}
    change(monkeypatch)
    assert factors(k_own_default.warmup(X, Y, grid=(1, ))) == {5.0} and factors(k_own_default[1, ](X, Y, factor=3)) == {3.0}


def test_an_autotuner_measures_anew(gpu, monkeypatch):
    """What was the best configuration for another value of a constant need not be one for this."""
    measured = []

    def bench(call, quantiles):
        call()
        measured.append(factors(k_default[1, ](X, Y)))
        return [len(measured)] * 3

    tuned = mimw.autotune([mimw.Config({}, num_warps=4), mimw.Config({}, num_warps=8)], [], do_bench=bench)(k_default)
    for _ in range(2):
        assert factors(tuned[1, ](X, Y)) == {3.0}
    assert measured == [{3.0}] * 2
    with monkeypatch.context() as patch:
        CASES["a helper's default"][2](patch)
        for _ in range(2):
            assert factors(tuned[1, ](X, Y)) == {5.0}
        assert measured[2:] == [{5.0}] * 2
    assert factors(tuned[1, ](X, Y)) == {3.0} and len(measured) == 4


def test_a_kernel_that_names_nothing_that_can_change_is_asked_nothing(gpu):
    kernel = mimw.jit(nothing_but_words)
    kernel[1, ](X, Y)
    (_, keys, *_), = kernel.device_caches.values()
    assert keys.now is None and kernel.freeze((1, ), X, Y)._route.names.still is None
    k_closure[1, ](X, Y)
    (_, keys, *_), = k_closure.device_caches.values()
    assert keys.now() == ""
