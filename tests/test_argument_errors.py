"""Arguments and grids that a launch cannot have: an error of ours, a TypeError or KeyError as Triton's, with the kernel's `def`."""

import re
import sys

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw import errors
from mimw.cli import main
from mimw.compiler.pipeline import gpu_target
from mimw.compiler.triton_port.runtime import MockTensor
from mimw.target import wanted
from tests.frontend.mistakes import undecorated


@mimw.jit
def scale(x, n, BLOCK: tl.constexpr):  # here
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def x():
    return np.ones(64, np.float32)


USES = {
    "launch": lambda *args, **meta: scale[(1, )](*args, **meta),
    "simulate": lambda *args, **meta: mimw.simulate(scale, (1, ), *args, **meta),
    "compile": lambda *args, **meta: mimw.compile(scale, (1, ), *args, **meta),
    "warmup": lambda *args, **meta: scale.warmup(*(MockTensor(tl.float32) if hasattr(one, "shape") else one for one in args),
                                                 grid=(1, ), **meta),
}


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("args, meta, kind, text", [
    ((x(), ), {}, TypeError, "missing a required argument: 'n'\nMend: give `n` and `BLOCK=` at the launch"),
    ((x(), 3), {}, TypeError, "scale(x, n, BLOCK): missing a required argument: 'BLOCK'\nMend: give `BLOCK=`"),
    ((x(), 3, 4, 5), {}, TypeError, "too many positional arguments: 4 are given, and it has 3 parameters"),
    ((x(), 3), {"n": 3, "BLOCK": 32}, TypeError, "multiple values for argument 'n'"),
    ((x(), 3), {"BLOCK": 32, "num_warp": 4}, KeyError, "num_warp was specified but unrecognised; did you mean num_warps?"),
    ((x(), 3), {"BLOCK": 32, "colour": 4}, KeyError, "unrecognised; scale has the parameters x, n, BLOCK")])
def test_arguments_that_do_not_bind(use, args, meta, kind, text):
    with pytest.raises(errors.ArgumentError) as caught:
        USES[use](*args, **meta)
    error = caught.value
    assert isinstance(error, kind) and isinstance(error, errors.LaunchError) and text in str(error)
    assert [site.function for site in error.sites] == ["scale"] and error.sites[0].file == __file__


@pytest.mark.parametrize("grid, text", [
    (lambda meta: (meta["BLOCKS"], ), "asks for 'BLOCKS', and the launch has x, n, BLOCK\nMend: did you mean 'BLOCK'?"),
    (lambda meta: (meta["colour"], ), "asks for 'colour', and the launch has x, n, BLOCK\nMend: give `colour=` at the launch"),
    (lambda: (1, ), "cannot be called with one argument, the launch's arguments by name\nMend: write `lambda meta: "),
    (lambda x, n: (1, ), "cannot be called with one argument"),
    (lambda meta: None, "the grid is None, or a function that returned None\nMend: write `kernel[(n, )](...)`"),
    (None, "the grid is None")])
@pytest.mark.parametrize("use", [
    lambda grid: scale[grid](x(), 3, BLOCK=32), lambda grid: mimw.simulate(scale, grid, x(), 3, BLOCK=32),
    lambda grid: scale.freeze(grid, x(), 3, BLOCK=32)], ids=["launch", "simulate", "freeze"])
def test_grids_that_say_nothing(grid, text, use):
    with pytest.raises(errors.LaunchError) as caught:
        use(grid)
    assert text in str(caught.value)


def test_an_error_of_the_grid_s_own_stays_what_it_is():
    with pytest.raises(KeyError, match="32") as caught:
        mimw.simulate(scale, lambda meta: ({}[meta["BLOCK"]], ), x(), 3, BLOCK=32)
    assert type(caught.value) is KeyError


@pytest.mark.parametrize("use", [
    lambda: mimw.simulate(undecorated, (1, ), x()), lambda: mimw.check(undecorated, (1, ), x()),
    lambda: mimw.compile(undecorated, (1, ), x()), lambda: mimw.autotune([mimw.Config({})], [])(undecorated)])
def test_a_function_without_a_decorator_is_named(use):
    with pytest.raises(errors.MimwError) as caught:
        use()
    assert "the function 'undecorated'" in str(caught.value) and "above `def undecorated`" in str(caught.value)
    assert "`@mimw.jit`" in str(caught.value) and " at 0x" not in str(caught.value)


LAUNCHED = """\
import numpy as np
import mimw
import triton.language as tl

def add(x):
    tl.store(x, 1)

@mimw.jit
def right(x, n):
    tl.store(x, n)

def case():
    return add, (1, ), (np.zeros(1), ), {}

def one_argument():
    return right, (1, ), np.zeros(1), {}

def too_few():
    return right, (1, ), (np.zeros(1), ), {}

def own():
    return right, lambda meta: (1 // 0, ), (np.zeros(1), 3), {}

if __name__ == "__main__":
    add[(1, )](np.zeros(1))
"""


@pytest.mark.parametrize("words, text", [
    (["check", "{}:case"], "mimw: {}:case should return (kernel, grid, args, meta), and returned the function 'add', which is no "
                           "kernel: write `@mimw.jit` above `def add`.\n"),
    (["check", "{}:one_argument"], "mimw: {}:one_argument should return (kernel, grid, args, meta), and returned a ndarray as "
                                   "`args`: one argument alone is written `(x, )`.\n"),
    (["check", "{}:too_few"], "mimw: right(x, n): missing a required argument: 'n'\n"
                              "Mend: give `n` at the launch, behind `kernel[grid](`\n"),
    (["check", "{}:own"], "mimw: ZeroDivisionError: integer division or modulo by zero ({}:22 in <lambda>)\n")])
def test_the_command_line_calls_no_mistake_of_the_user_s_a_bug(words, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(LAUNCHED)
    assert main([word.format("mine.py") for word in words]) == 2
    assert capsys.readouterr().err == text.format("mine.py", "mine.py")


def test_a_script_that_launches_a_plain_function_is_told_so(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(LAUNCHED)
    assert main(["run", str(tmp_path / "mine.py")]) == 1
    shown = capsys.readouterr().err
    assert "TypeError: 'function' object is not subscriptable\n" in shown
    assert shown.endswith("mimw: 'add' is a function of Python and no kernel: write `@mimw.jit` above `def add`\n")


@pytest.mark.parametrize("use, text", [
    (lambda: mimw.simulat, "Did you mean mimw.simulate?"), (lambda: mimw.Tensordescriptor, "Did you mean mimw.TensorDescriptor?")])
def test_a_misspelt_name_of_the_package(use, text):
    with pytest.raises(AttributeError) as caught:
        use()
    assert str(caught.value).endswith(text)


def test_triton_s_own_kernels_stay_triton_s():
    """A stock kernel raises what it always did."""
    stock = triton.jit(undecorated)
    with pytest.raises(RuntimeError) as caught:
        stock(3)
    assert not isinstance(caught.value, errors.MimwError)


@pytest.mark.parametrize("raised, grid, given, kind, text", [
    (TypeError("dynamic_func() missing 1 required positional argument: 'n'"), (1, ), {"BLOCK": 32}, errors.ArgumentError,
     "scale(x, n, BLOCK): missing a required argument: 'n'"),
    (KeyError("Keyword argument num_warp was specified but unrecognised"), (1, ), {"n": 3, "BLOCK": 32, "num_warp": 4},
     errors.UnknownKeyword, "did you mean num_warps?"),
    (KeyError("BLOCKS"), lambda meta: (meta["BLOCKS"], ), {"n": 3, "BLOCK": 32}, errors.LaunchError, "did you mean 'BLOCK'?"),
    (TypeError("<lambda>() takes 0 positional arguments"), lambda: (1, ), {"n": 3, "BLOCK": 32}, errors.LaunchError,
     "cannot be called with one argument"),
    (KeyError("theirs"), (1, ), {"n": 3, "BLOCK": 32}, KeyError, "theirs"),
    (TypeError("of a hook"), (1, ), {"n": 3, "BLOCK": 32}, TypeError, "of a hook")])
def test_a_launch_on_a_gpu_says_the_same(raised, grid, given, kind, text, monkeypatch):
    """Triton raises these, after it has found no driver's error; what is not about the launch stays what it is."""
    jit = sys.modules["mimw.runtime.jit"]

    def launch(*args, **keywords):
        raise raised

    monkeypatch.setattr(jit, "_LAUNCH", launch)
    monkeypatch.setattr(jit, "simulating", lambda: False)
    monkeypatch.setattr(jit, "active_target", lambda: gpu_target(wanted("sm_90a")))
    with pytest.raises(kind, match=re.escape(text)) as caught:
        scale[grid](x(), **given)
    ours = kind not in (KeyError, TypeError)
    assert isinstance(caught.value, errors.MimwError) == ours and (ours or caught.value is raised)
    assert len(caught.traceback) == (1 if ours else 3)
