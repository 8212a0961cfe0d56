"""Which kernels are ours: those that use a word, whatever their module is called."""

import importlib.util
import sys

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.frontend.words import uses_words
from mimw.compiler.triton_port.origin import is_tritons
from tests.compiling import to_ttgir

_SOURCE = '''
from typing import NamedTuple

import mimw
import triton.language as tl
from mimw import tlx


class Scales(NamedTuple):
    first: object
    second: object


@mimw.jit
def through_shared(x, y, scales, N: tl.constexpr):
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + tl.arange(0, N)))
    tl.store(y + tl.arange(0, N), tlx.local_load(tile[0]) * scales.first + scales.second)


@mimw.jit
def caller(x, y, scales, N: tl.constexpr):
    through_shared(x, y, scales, N)


@mimw.jit
def plain(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), tl.cumsum(tl.load(x + tl.arange(0, N))))
'''


@pytest.fixture(params=["triton.tutorials_of_mine", "triton.language.extra.tlx.tutorials.mine", "mine"])
def published(request, tmp_path, monkeypatch):
    """A module of kernels, imported under a name that may be within Triton's."""
    path = tmp_path / "mine.py"
    path.write_text(_SOURCE)
    spec = importlib.util.spec_from_file_location(request.param, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, request.param, module)
    spec.loader.exec_module(module)
    return module


def test_words_are_found_whatever_the_module_is_called(published):
    assert uses_words(published.through_shared) and uses_words(published.caller) and not uses_words(published.plain)


def test_they_run_and_compile(published):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    mimw.simulate(published.caller, (1, ), x, y, published.Scales(3.0, 5), 64)
    assert (y == 3 * x + 5).all()
    types = {"x": "*fp32", "y": "*fp32", "scales": published.Scales("fp32", "i32")}
    compiled = to_ttgir(published.through_shared, types, {"N": 64})
    assert "ttg.local_alloc" in compiled.stage("ttgir")


@pytest.mark.parametrize("thing, expected", [(tl.sum.fn, True), (tl.dtype, True), (tl.constexpr, True), (np.ndarray, False),
                                             (uses_words, False), (3, False)])
def test_what_is_tritons_own(thing, expected):
    assert is_tritons(thing) is expected


@mimw.jit
def by_the_function(x):
    at = tl.arange(0, 8)
    tl.store(x + at, tl.gather(tl.load(x + at), 7 - at, 0))


@mimw.jit
def by_the_method(x):
    at = tl.arange(0, 8)
    tl.store(x + at, tl.load(x + at).gather(7 - at, 0))


def test_a_gather_may_be_a_descriptors_and_is_ours_only_if_it_is():
    """Which method it is shows in the recording; what was recorded for nothing is Triton's all the same."""
    assert not uses_words(by_the_function) and uses_words(by_the_method)
    launch = by_the_method, (1, ), np.zeros(8, np.float32)
    assert mimw.compile(*launch).program is None and "stock Triton" in str(mimw.explain(*launch))


def test_what_only_says_so_is_not(published):
    assert not is_tritons(published.plain.fn) and not is_tritons(published.Scales)
