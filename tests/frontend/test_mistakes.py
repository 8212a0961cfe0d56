"""A beginner's mistakes: each is named by an error of ours, at its line, with what to write, in no words of Python's objects."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.errors import AssertionFailed, KernelError, LanguageError, MimwError
from mimw.ir.plainly import plainly
from mimw.runtime.compile_kernel import compile_kernel
from tests.frontend import mistakes
from tests.frontend.mistakes import MISTAKES

LINES = Path(mistakes.__file__).read_text().splitlines()
OBJECTS = re.compile(r" at 0x|<class |constexpr\[|object has no attribute '_|\[\]|triton\.language\.")


def marked(name: str) -> int:
    """The number of the line marked `# here` in the kernel."""
    start = next(i for i, line in enumerate(LINES) if line.startswith(f"def {name}("))
    return next(i for i, line in enumerate(LINES[start:], start + 1) if line.endswith("# here"))


def refused(name: str) -> MimwError:
    one = MISTAKES[name]
    with pytest.raises(MimwError) as caught:
        mimw.simulate(one.kernel, (1, ), *one.args, **one.meta)
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_right(name):
    error, one = refused(name), MISTAKES[name]
    assert isinstance(error, KernelError) and isinstance(error, triton.CompilationError)
    assert one.text in error.message and one.mend in error.hint and (one.mend or not error.hint), (error.message, error.hint)
    assert (error.sites[0].file, error.sites[0].line) == (mistakes.__file__, marked(name))
    first, *rest = str(error).splitlines()
    assert first.startswith(f"{error.kind} at {mistakes.__file__}:{marked(name)}: ")
    assert any(line.endswith("# here") for line in rest) and rest[-1].strip() == "^"
    assert not OBJECTS.search(str(error)), str(error)


def test_no_two_mistakes_are_told_alike():
    """A word for all of them would say nothing."""
    texts = [one.text for one in MISTAKES.values()]
    assert len(texts) > 75 and len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", ["leaves_a_loop", "a_number_of_the_file", "if_of_a_tile", "a_power", "an_array_for_a_bound"])
def test_compiling_says_it_in_the_same_words(name):
    """Triton's own path compiles such kernels, which use no word of ours."""
    one = MISTAKES[name]
    with pytest.raises(LanguageError) as caught:
        compile_kernel(one.kernel, {parameter: "*fp32" for parameter in one.kernel.arg_names})
    assert str(caught.value) == str(refused(name)) and isinstance(caught.value, triton.CompilationError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_static_assertion_is_the_author_s_own():
    @mimw.jit
    def small(x, N: tl.constexpr):
        tl.static_assert(N > 4, "N is too small")
        tl.store(x, N)

    for use in (lambda: mimw.simulate(small, (1, ), np.zeros(1, np.int32), N=3),
                lambda: compile_kernel(small, {"x": "*i32"}, {"N": 3})):
        with pytest.raises(AssertionFailed, match="N is too small") as caught:
            use()
        assert isinstance(caught.value, triton.compiler.errors.CompileTimeAssertionFailure) and caught.value.sites


@pytest.mark.parametrize("text, plain", [
    ("got fp32[constexpr[64], constexpr[64]]", "got fp32[64, 64]"),
    ("got <class 'numpy.float32'>", "got float32"),
    ("<triton.language.core.slice object at 0x7f00aa>", "a slice"),
    ("<function KernelInterface.__getitem__.<locals>.<lambda> at 0x7f00aa>", "the function '<lambda>'"),
    ("<bound method tensor.sum of <x.y object at 0x1f>>", "the function 'sum'"),
    ("to <['32', '64'], fp32> in loop", "to fp32[32, 64] in loop"),
    ("expected ['32', '32'], got ['16', '16']", "expected [32, 32], got [16, 16]"),
    ("Unsupported ptr type triton.language.float32", "Unsupported ptr type fp32"),
    ("values int32[] and pointer<fp32>[]", "values int32 and pointer<fp32>"),
    ("tlx.local_alloc((32, 32), tl.float32, 2)", "tlx.local_alloc((32, 32), tl.float32, 2)")])
def test_values_and_types_are_shown_plainly(text, plain):
    assert plainly(text) == plain
