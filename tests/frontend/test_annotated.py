"""An annotated assignment works its value out once, in kernels of ours and in those that are Triton's alone."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def counted(x, y, WORD: tl.constexpr):
    if WORD:
        tlx.fence("gpu")
    before: tl.tensor = tl.atomic_add(x, 1)
    KNOWN: tl.constexpr = 2
    later: tl.int32
    later = before + KNOWN
    tl.store(y, later)


@pytest.mark.parametrize("word", [False, True])
def test_an_atomic_with_an_annotation_happens_once(word):
    x, y = np.zeros(1, np.int32), np.zeros(1, np.int32)
    mimw.simulate(counted, (1, ), x, y, word)
    assert (x[0], y[0]) == (1, 2)
    assert mimw.compile(counted, (1, ), x, y, word, target="sm_90a").ttgir.count("tt.atomic_rmw") == 1
