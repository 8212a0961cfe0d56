"""What `mimw.jit` may be given: kernels of either decorator, functions out of `exec` with their text; what it says of the rest."""

import functools
import linecache

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.errors import KernelError, LaunchError, NotAKernel

TEXT = """
import triton.language as tl

def made(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 3.0)

def wrong(x, N: tl.constexpr):
    return tl.load(x)
"""


@triton.jit(do_not_specialize=["n"], repr=lambda _: "renamed")
def stock(x, n, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), n * 1.0)


@mimw.jit
def ours(x, n, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), n * 1.0)


class Holder:
    def method(self, x):
        pass

    @staticmethod
    def fill(x, N: tl.constexpr):
        tl.store(x + tl.arange(0, N), 1.0)


def executed():
    scope = {}
    exec(TEXT, scope)
    return scope


def filled(kernel, *args):
    x = np.zeros(32, np.float32)
    mimw.simulate(kernel, (1, ), x, *args, N=32)
    return set(x.tolist())


def test_a_file_that_python_has_run_and_cannot_read(tmp_path):
    """It did not come out of exec: it is no UTF-8, or it is another one by now."""
    place, text = tmp_path / "kernels.py", "# " + chr(228) + TEXT
    for encoding, head in (("latin-1", ""), ("latin-1", "# -*- coding: latin-1 -*-\n"), ("utf-8-sig", "")):
        place.write_bytes((head + text).encode(encoding))
        scope = {}
        exec(compile(head + text, str(place), "exec"), scope)
        linecache.clearcache()
        if encoding == "latin-1" and not head:
            with pytest.raises(NotAKernel, match="kernels.py is no text in the encoding that it says, or in UTF-8.*\nMend: save"):
                mimw.jit(scope["made"])
        else:
            assert filled(mimw.jit(scope["made"])) == {3.0}
    place.write_text("x = 1\n")
    linecache.clearcache()
    with pytest.raises(NotAKernel, match="no such `def` from line 4 on any more; it has 1 lines now"):
        mimw.jit(scope["made"])


def test_a_kernel_of_either_decorator():
    """Ours is the same object; Triton's keeps its options, and gets those that are given."""
    assert mimw.jit(ours) is ours and mimw.jit()(ours) is ours
    again = mimw.jit(stock)
    assert isinstance(again, mimw.jit(ours).__class__) and again.fn is stock.fn and filled(again, 2) == {2.0}
    assert again.params[1].do_not_specialize and again.repr(None) == "renamed"
    assert mimw.jit(ours, do_not_specialize=["n"]).params[1].do_not_specialize and not ours.params[1].do_not_specialize
    assert not mimw.jit(stock, do_not_specialize=["x"]).params[1].do_not_specialize


def test_functions_without_a_file_bring_their_text():
    scope = executed()
    kernel = mimw.jit(scope["made"], source=TEXT)
    assert filled(kernel) == {3.0}
    with pytest.raises(KernelError, match=r"source \d+ of mimw.jit>:7 in wrong\n +def wrong\(x, N: tl.constexpr\):") as refused:
        filled(mimw.jit(source=TEXT)(scope["wrong"]))
    assert "cannot return a value" in str(refused.value)


def test_a_static_method():
    assert filled(mimw.jit(Holder.fill)) == {1.0}


@pytest.mark.parametrize("make, match", [
    (lambda: executed()["made"], r"Python does not know that of made \(<string>\).*\nMend: mimw.jit\(made, source=text\)"),
    (lambda: lambda x: x, "a lambda is an expression.*\nMend: write it as `def` with a name"),
    (lambda: Holder, "which is no Python function\nMend: write @mimw.jit above the `def`"),
    (lambda: len, "which is no Python function"),
    (lambda: Holder().method, r"the method Holder.method, and a kernel has no self"),
    (lambda: functools.partial(Holder.fill, N=3), "a functools.partial, which has no source of its own"),
    (lambda: mimw.autotune([mimw.Config({"N": 32})], ["n"])(ours), "\nMend: swap the two: @mimw.autotune"),
    (lambda: triton.heuristics({"N": lambda _: 32})(ours), "\nMend: swap the two"),
])
def test_what_is_no_kernel(make, match):
    with pytest.raises(NotAKernel, match=match) as refused:
        mimw.jit(make())
    assert isinstance(refused.value, (TypeError, LaunchError)) and str(refused.value).count("\n") == 1


def test_a_call_without_a_grid_says_how_to_launch():
    said = r"launch it by ours\[grid\]\(...\), or run it without a GPU by mimw.simulate\(ours, grid, ...\)"
    with pytest.raises(RuntimeError, match=said):
        ours(1, 2, 3)
