"""What reaches the terminal when something goes wrong, and while something takes long: never a traceback through our own files."""

import io
import time

import pytest

import mimw.cli
from mimw.cli import main, progress
from mimw.cli.errors import CommandError
from mimw.cli.on_gpu import on_gpu
from mimw.cli.progress import working
from tests.processes import mimw as mimw_process

FILE = """\
import numpy as np
import mimw
import triton.language as tl

@mimw.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

def case():
    return add, (1, ), (np.ones(100, np.float32), np.zeros(100, np.float32), 100), {"BLOCK": 128}

def launches():
    kernel, grid, args, meta = case()
    kernel[grid](*args, **meta)

def fails():
    return {}["key"]

def raises_itself():
    try:
        fails()
    except KeyError as error:
        raise error from error

@mimw.jit
def tries(x):
    try:
        tl.store(x, 1)
    except Exception:
        pass

@mimw.jit
def prints(x):
    print(tl.load(x))

def nothing():
    pass

def with_a_parameter(x):
    pass
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    import sys
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("MIMW_SIMULATE", "MIMW_SEED"):
        monkeypatch.setenv(name, "1" if name == "MIMW_SIMULATE" else "0")
    (tmp_path / "add.py").write_text(FILE)
    return f"{tmp_path}/add.py"


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_named_launch_is_made_whichever_way_it_is_named(command, file, capsys):
    for words in ([f"{file}:case"], [f"{file}:launches"], [f"{file}:add", "--args", "fp32[100]", "fp32[100]", "100", "BLOCK=128"]):
        assert main([command, *words]) == 0
    out = capsys.readouterr().out
    assert out.count(" ops in " if command == "simulate" else ": simulated, nothing wrong in this run; results not compared\n") >= 2


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_what_does_nothing_is_refused(command, file, capsys):
    assert main([command, f"{file}:nothing"]) == 1
    assert "nothing() launched nothing, and returned no launch" in capsys.readouterr().err
    assert main([command, file]) == 1
    shown = capsys.readouterr().err
    assert f"{file} only defines add, case, launches, fails, raises_itself, tries, prints, nothing, with_a_" in shown
    assert main([command, f"{file}:case", "7"]) == 1
    assert "is called without arguments" in capsys.readouterr().err


@pytest.mark.parametrize("command, status", [("simulate", 1), ("check", 2), ("explain", 1), ("compile", 1), ("predict", 1)])
def test_an_error_of_a_function_is_one_line(command, status, file, capsys):
    assert main([command, f"{file}:fails"]) == status
    assert capsys.readouterr().err == f"mimw: {file}:fails() raised KeyError: 'key' ({file}:18)\n"


@pytest.mark.parametrize("words, expected", [
    (["explain", "{file}"], "names no function. Write FILE:NAME (gemm.py:kernel) or MODULE:NAME. {file} has: add, case, launches"),
    (["explain", "{file}:lost"], "It has: add, tries, prints; functions that may name a launch: case, launches, fails, raises"),
    (["check", "{file}:nothing"], "should return (kernel, grid, args, meta), and returned None."),
    (["check", "{file}:add"], "missing a required argument: 'x'. Give --args, an argument each"),
    (["check", "{file}:case", "--grid", "4"], "it takes no --grid."),
    (["simulate", "--json", "{file}"], "--json is for FILE:FUNCTION"),
    (["simulate", "{file}:case", "--seed", "1"], "Options of mimw stand before the name: mimw simulate --seed 1 {file}:case"),
    (["check", "{file}:add", "--grid", "x", "--args", "fp32[9]", "fp32[9]", "9", "BLOCK=16"], "mimw: --grid 'x' should be numbers"),
    (["check", "{file}:raises_itself"], "raises_itself() raised KeyError: 'key' ({file}:"),
    (["run", "-m", "nowhere.at_all"], "mimw: no module 'nowhere.at_all' here ("),
    (["check", "{file}:with_a_parameter", "--args", "1"], "is a function with parameters, and no kernel. Is `@mimw.jit` missing?"),
    (["explain", ".:case"], "'.' is a folder; name a file in it, ./FILE.py"),
    (["compile", "{file}:add", "--constexpr", "BLOCK=8"], "or name a function that returns (kernel, grid, args, meta)"),
    (["compile", "{file}:add", "--signature", "foo,*fp32,i32", "--constexpr", "BLOCK=128"], "--signature x=foo: 'foo' is no type"),
])
def test_one_line_says_what_would_do(words, expected, file, capsys):
    assert main([word.format(file=file) for word in words]) in (1, 2)
    shown = capsys.readouterr().err
    assert expected.format(file=file) in shown and shown.count("\n") == 1


def test_a_script_s_traceback_begins_with_the_script(tmp_path):
    (tmp_path / "script.py").write_text("def f():\n    1 / 0\n\n"
                                        "try:\n    f()\nexcept ZeroDivisionError as error:\n    raise KeyError(1) from error\n")
    for command in ("run", "simulate"):
        run = mimw_process(command, str(tmp_path / "script.py"))
        assert run.returncode == 1 and "runpy" not in run.stderr and "mimw/cli" not in run.stderr
        assert "line 2, in f" in run.stderr and run.stderr.endswith("KeyError: 1\n")


def test_a_script_that_does_not_parse_is_told_as_by_python(tmp_path):
    (tmp_path / "script.py").write_text("def f(:\n    pass\n")
    run = mimw_process("run", str(tmp_path / "script.py"))
    assert run.returncode == 1 and run.stderr.startswith(f'  File "{tmp_path}/script.py", line 1\n    def f(:\n')
    assert run.stderr.endswith("SyntaxError: invalid syntax\n")


def test_places_begin_where_the_terminal_stands(file, tmp_path, monkeypatch, capsys):
    """In messages; and a word that Triton's language has not is told with its line."""
    monkeypatch.chdir(tmp_path)
    assert main(["check", "add.py:tries", "--args", "fp32[4]"]) == 2
    assert capsys.readouterr().err == ("mimw: LanguageError at add.py:28: a kernel has no `try`: nothing in it raises\n"
                                       "Mend: check the condition by an `if`\nadd.py:28 in tries\n        try:\n        ^\n")
    assert main(["check", "add.py:prints", "--args", "fp32[4]"]) == 2
    assert "add.py:35 in prints" in (shown := capsys.readouterr().err)
    assert "take a text before what is printed\nMend: write `print('value', value)`" in shown and str(tmp_path) not in shown


@pytest.mark.parametrize("words, meant", [(["chekc", "a.py:case"], "check"), (["check", "a.py:case", "--sedes", "3"], "--seeds"),
                                          (["check", "a.py:case", "--search", "randm"], "random")])
def test_a_misspelled_word_is_told_with_the_nearest_one(words, meant, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    shown = capsys.readouterr().err
    assert end.value.code == 2 and shown.endswith(f". Did you mean {meant}?\n")
    assert words[0] == "chekc" or "usage: mimw check" in shown          # of the command, not of mimw


def test_what_nobody_has_foreseen_is_one_line(monkeypatch, capsys):
    ours = {}       # a function of our own files, where such a thing is a bug
    exec(compile("def broken(options):\n    raise IndexError('list index\\nout of range')", mimw.cli.__file__, "exec"), ours)
    monkeypatch.setattr("mimw.cli.doctor.execute", ours["broken"])
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("mimw: this should not have happened (IndexError: list index out of range")
    assert "It is a bug of mimw 0" in shown and "report this line" in shown and "MIMW_TRACEBACK=full" in shown
    monkeypatch.setenv("MIMW_TRACEBACK", "1")
    assert main(["doctor"]) == 1 and "in broken" in capsys.readouterr().err


def test_the_keyboard_ends_a_command_without_a_traceback(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mimw.cli.doctor.execute", interrupted)
    assert main(["doctor"]) == mimw.cli.INTERRUPTED == 130
    assert capsys.readouterr().err == "mimw: interrupted\n"


class Terminal(io.StringIO):

    def isatty(self):
        return True


@pytest.mark.parametrize("stream, expected", [(io.StringIO, "mimw: waiting, 0 s\n"), (Terminal, "\r\x1b[Kmimw: waiting, 0 s")])
def test_what_takes_long_says_so_and_what_is_soon_done_does_not(stream, expected, monkeypatch):
    monkeypatch.delenv("MIMW_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "FIRST", 0.01)
    told = stream()
    with working("waiting", told):
        begun = time.monotonic()
        while expected not in told.getvalue() and time.monotonic() < begun + 5:
            time.sleep(0.001)
    assert told.getvalue().startswith(expected) and (stream is io.StringIO or told.getvalue().endswith("\r\x1b[K"))
    monkeypatch.setattr(progress, "FIRST", 5.0)
    told = stream()
    with working("waiting", told):
        pass
    assert told.getvalue() == ""


def test_a_launch_on_a_gpu_without_torch_says_what_is_missing(monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("mimw.compiler.triton_port.runtime.gpu_is_active", lambda: True)
    with pytest.raises(CommandError, match="wants torch"):
        on_gpu(1)
    monkeypatch.setattr("mimw.compiler.triton_port.runtime.gpu_is_active", lambda: False)
    with pytest.raises(CommandError, match="MIMW_SIMULATE=0 asks for a launch on a GPU, and there is none"):
        on_gpu(1)
