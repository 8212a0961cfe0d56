"""Words refuse a wrong call in one way: the kind of their contract, the user's line, the mend."""

import ast
from pathlib import Path

import pytest
import triton.language as tl

import mimw.language
from mimw import tlx
from mimw.errors import KernelError
from mimw.language.refuse import inside, refuse

from .harness import USER_LINE, Kernel

WORDS = Path(mimw.language.__file__).parent


@pytest.mark.parametrize("kind", [ValueError, TypeError, AssertionError, NotImplementedError, KernelError])
def test_a_refusal_has_the_kind_the_line_and_the_mend(kind):
    with inside(Kernel().builder), pytest.raises(kind, match="it cannot be") as caught:
        refuse(kind, "it cannot be", mend="do otherwise")
    assert caught.value.sites == (USER_LINE, ) and caught.value.hint == "do otherwise"
    assert "Mend: do otherwise" in str(caught.value)


@pytest.mark.parametrize("kind", [ValueError, KernelError])
def test_outside_of_kernels_there_is_no_line(kind):
    with pytest.raises(kind, match="it cannot be") as caught:
        refuse(kind, "it cannot be")
    assert caught.value.sites == () and "Mend" not in str(caught.value)


def test_a_word_refuses_at_its_line_and_says_what_to_write():
    k = Kernel()
    buffers = k(tlx.local_alloc, (64, 64), tl.float16, 1)
    narrow = k(tlx.local_alloc, (128, 64), tl.float16, 1)
    one, other = (k(tlx.local_view, array, 0) for array in (buffers, narrow))
    with pytest.raises(AssertionError, match="the inner dimensions differ") as caught:
        k(tlx.async_dot, one, other)
    assert caught.value.sites == (USER_LINE, ) and "tlx.local_trans(B)" in caught.value.hint


def test_a_word_called_by_a_word_keeps_the_line():
    k = Kernel()
    with inside(Kernel("sm80").builder):
        with pytest.raises(ValueError) as caught:
            k(tlx.thread_id, 7)
        assert caught.value.sites == (USER_LINE, )


@pytest.mark.parametrize("room", ["language", "frontend"])
def test_no_error_of_the_user_is_an_assertion_that_python_o_leaves_out(room):
    left = [f"{path.name}:{node.lineno}" for path in sorted((WORDS.parent / room).rglob("*.py"))
            for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
    assert left == []
