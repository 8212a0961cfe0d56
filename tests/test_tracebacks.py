"""Tracebacks of refusals: they end at the user's call, and all of them together are short."""

import os
import re
import subprocess
import sys
import traceback

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import errors, tlx
from mimw.ir.callers import ends_at_call
from tests.processes import python

SCRIPT = """\
import numpy as np
import mimw
import triton.language as tl
from mimw import tlx

@mimw.jit
def kernel(x, n, N: tl.constexpr):
    {line}
    tl.store(x + tl.arange(0, N), n)

x = np.zeros(64, np.float32)
{call}
"""
SIZE = "size = tl.zeros((n, ), tl.float32)"
WAIT = "tlx.barrier_wait(tlx.alloc_barriers(1)[0], n - n)"
LAUNCHES = {
    "a launch": (SIZE, "kernel[(1, )](x, 3, N=32)", "LanguageError"),
    "a simulation": ("tlx.missing()", "mimw.simulate(kernel, (1, ), x, 3, N=32)", "LanguageError"),
    "a check": (SIZE, "mimw.check(kernel, (1, ), x, 3, N=32)", "LanguageError"),
    "a compilation": ("for i in range(n): break", "mimw.compile(kernel, (1, ), x, 3, N=32)", "LanguageError"),
    "a warmup": (SIZE, "kernel.warmup(x, 3, N=32, grid=(1, ))", "LanguageError"),
    "an explanation": (SIZE, "mimw.explain(kernel, (1, ), x, 3, N=32)", "LanguageError"),
    "a deadlock": (WAIT, "kernel[(1, )](x, 3, N=32)", "TooFewArrivals"),
    "an argument too few": ("pass", "kernel[(1, )](x, N=32)", "ArgumentError"),
    "a keyword too many": ("pass", "kernel[(1, )](x, 3, N=32, num_warp=4)", "UnknownKeyword"),
    "a grid that asks for more": ("pass", "kernel[lambda meta: (meta['M'], )](x, 3, N=32)", "LaunchError"),
    "a kernel that is called": ("pass", "kernel(x, 3, N=32)", "OutsideKernel"),
    "an autotuned kernel": (SIZE, "mimw.autotune([mimw.Config({'N': 32})], [])(kernel)[(1, )](x, 3)", "LanguageError"),
    "a decorator": ("pass", "mimw.jit(lambda x: x)", "NotAKernel"),
    "a descriptor": ("pass", "mimw.TensorDescriptor.from_tensor(x, 32)", "ArgumentError"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a process prints that makes all of these mistakes, each in a script of its own: name -> its traceback."""
    folder = tmp_path_factory.mktemp("scripts")
    paths = {}
    for number, (name, (line, call, _)) in enumerate(LAUNCHES.items()):
        paths[name] = folder / f"script_{number}.py"
        paths[name].write_text(SCRIPT.format(line=line, call=call))
    program = (f"import sys, traceback\nfor name, path in {[(name, str(path)) for name, path in paths.items()]!r}:\n"
               "    print('##', name)\n"
               "    try:\n        exec(compile(open(path).read(), path, 'exec'), {'__name__': '__main__', '__file__': path})\n"
               "    except Exception as error:\n        error.__traceback__ = error.__traceback__.tb_next\n"
               "        print(''.join(traceback.format_exception(error)))\n")
    (folder / "all.py").write_text(program)
    done = python(str(folder / "all.py"), MIMW_SIMULATE="1", MIMW_TRACEBACK="")
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^## (.*)\n", done.stdout, flags=re.MULTILINE)
    return {name: (text.strip().splitlines(), str(paths[name])) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_traceback_ends_at_the_user_s_call(name, told):
    lines, path = told[name]
    _, call, kind = LAUNCHES[name]
    frames = [line for line in lines if line.startswith("  File ")]
    assert len(lines) <= 12 + ("^^^" in "".join(lines)), lines      # 12, and Python's carets under a part of a line
    assert frames == [f'  File "{path}", line 12, in <module>'] and f"    {call}" in lines
    assert any(line.startswith(f"mimw.errors.{kind}: ") for line in lines)


def test_a_script_prints_few_lines(tmp_path):
    """As Python itself prints them, for a mistake that went through Triton's generator and came with 55 lines."""
    (tmp_path / "script.py").write_text(SCRIPT.format(line=SIZE, call="kernel[(1, )](x, 3, N=32)"))
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "MIMW_SIMULATE": "1", "MIMW_TRACEBACK": ""})
    lines = [line for line in done.stderr.splitlines() if "nanobind" not in line and " leaked " not in line]
    lines = lines[:next((at for at, line in enumerate(lines) if line.startswith(" - ")), None)]
    assert done.returncode == 1 and len(lines) <= 12, lines
    assert lines[-1].strip() == "^" and sum("line 12, in <module>" in line for line in lines) == 1
    whole = python(str(tmp_path / "script.py"), MIMW_SIMULATE="1", MIMW_TRACEBACK="full")
    assert "code_generator.py" in whole.stderr and "runtime/jit.py" in whole.stderr


@mimw.jit
def waits(x):
    tlx.barrier_wait(tlx.alloc_barriers(1)[0], 0)
    tl.store(x, 1)


@mimw.jit
def misspelt(x):
    tlx.fence("gpu")
    tl.store(x, tlx.local_lod(x))


@mimw.jit
def stores(x):
    tl.store(x, 1)


@pytest.mark.parametrize("kernel, kind, cause", [
    (waits, errors.TooFewArrivals, None), (misspelt, errors.LanguageError, AttributeError)])
def test_what_pytest_and_notebooks_read_is_cut_too(kernel, kind, cause):
    """They walk `__traceback__` and the causes: what says the same is gone, what Python said has no frames."""
    with pytest.raises(kind) as caught:
        mimw.simulate(kernel, (1, ), np.zeros(1, np.float32))
    error = caught.value
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)] == ["test_what_pytest_and_notebooks_read_is_cut_too"]
    assert error.__context__ is None and error.sites
    if cause is None:
        assert error.__cause__ is None
    else:
        assert isinstance(error.__cause__, cause) and error.__cause__.__traceback__ is error.__cause__.__context__ is None


def test_all_frames_are_kept_where_that_is_asked(monkeypatch):
    monkeypatch.setenv("MIMW_TRACEBACK", "full")
    with pytest.raises(errors.LanguageError) as caught:
        mimw.simulate(misspelt, (1, ), np.zeros(1, np.float32))
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 5 and caught.value.__cause__.__traceback__ is not None


def test_errors_of_the_user_keep_their_frames():
    """A grid, a hook, and whatever else is not ours; and a bug of ours of which there is no file to report."""
    with pytest.raises(ZeroDivisionError) as caught:
        mimw.simulate(stores, lambda meta: (1 // 0, ), np.zeros(1, np.float32))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "<lambda>"

    @ends_at_call
    def buggy():
        raise errors.InvalidProgram("no block")

    with pytest.raises(errors.InvalidProgram) as caught:
        buggy()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "buggy"
