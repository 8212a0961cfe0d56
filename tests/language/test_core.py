"""What every word shares: where it may be called, and what must be known at compile time."""

from types import SimpleNamespace

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.language.core import unwrap


def test_outside_a_kernel():
    with pytest.raises(RuntimeError, match=r"tlx.alloc_barriers .* Did you forget to add @mimw.jit\?"):
        tlx.alloc_barriers(2)


def test_under_the_stock_compiler():
    with pytest.raises(RuntimeError, match="compiled by triton.jit; decorate it with @mimw.jit"):
        tlx.alloc_barriers(2, _semantic=SimpleNamespace(builder=object()))


def test_a_constexpr_may_be_wrapped_or_plain(kernel):
    kernel(tlx.alloc_barriers, tl.constexpr(2), arrive_count=tl.constexpr(3))
    kernel(tlx.alloc_barriers, 2, arrive_count=3)
    assert kernel.text() == ["%0 = alloc_barriers count=2, arrive_count=3 : barrier<x 2>",
                             "%1 = alloc_barriers count=2, arrive_count=3 : barrier<x 2>"]


def test_a_run_time_value_where_a_constexpr_is_needed(kernel):
    n = kernel.tensor("n", tl.int32)
    with pytest.raises(ValueError, match=r"`num_barriers` must be a constexpr.*tl.constexpr\(2\)"):
        kernel(tlx.alloc_barriers, n)
    with pytest.raises(ValueError, match="`shape` must be a constexpr"):
        kernel(tlx.local_alloc, tl.tuple([n, tl.constexpr(64)]), tl.float16, 2)


def test_a_wrong_call_shows_the_parameters(kernel):
    with pytest.raises(TypeError, match=r"tlx.barrier_wait\(bar, phase, pred=None\): missing a required argument: 'phase'"):
        kernel(tlx.barrier_wait, kernel(tlx.alloc_barriers, 1))


def test_unwrap_goes_into_lists_and_tuples():
    c = tl.constexpr
    assert unwrap(tl.tuple([c(1), tl.tuple([c(2), c(3)])])) == (1, (2, 3))
    assert unwrap([c(c(1)), (c(None), "x")]) == [1, (None, "x")]
