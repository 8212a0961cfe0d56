"""The frame of the command line, and what each command does with what the compiler gives back."""

import sys
from types import SimpleNamespace

import pytest

import mimw
import mimw.cli
from mimw.cli import COMMANDS, doctor, main
from mimw.cli.errors import CommandError
from mimw.cli.load import kernel_of, load


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """A stand-in compiler that keeps what it was asked for, and a file with one kernel."""
    asked = []

    def compile_kernel(kernel, signature, constexprs, target, options):
        asked.append((kernel.fn.__name__, signature, constexprs, target, options))
        return SimpleNamespace(stages={"ttgir": "module {}", "ptx": ".version 8.8\n", "cubin": b"\x7fELF"})

    monkeypatch.setattr("mimw.runtime.compile_kernel.compile_kernel", compile_kernel)
    monkeypatch.setattr(mimw, "install_aliases", lambda: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "add.py").write_text("from types import SimpleNamespace\n"
                                     "def add(x, n, B=1): pass\n"
                                     "kernel = SimpleNamespace(fn=add)\n"
                                     "tuned = SimpleNamespace(fn=kernel)\n")
    return SimpleNamespace(asked=asked, file=f"{tmp_path}/add.py", folder=tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_in_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"  mimw {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_no_command_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"mimw {mimw.__version__}\n"


def test_compile_prints_a_stage(compiler, capsys):
    assert main(["compile", f"{compiler.file}:tuned", "--signature", "*fp32, i32", "--constexpr", "B=2", "--emit", "ptx",
                 "--num-warps", "8", "--num-stages", "2", "--target", "sm_100a"]) == 0
    assert capsys.readouterr().out == ".version 8.8\n"
    assert compiler.asked == [("add", {"x": "*fp32", "n": "i32", "B": "constexpr"}, {"B": 2}, "sm_100a",
                               {"num_warps": 8, "num_stages": 2})]


def test_compile_writes_a_binary(compiler, capsys):
    out = compiler.folder / "add.cubin"
    assert main(["compile", f"{compiler.file}:kernel", "--signature", "*fp32,i32,i32", "--emit", "cubin", "-o", str(out)]) == 0
    assert out.read_bytes() == b"\x7fELF"
    assert "4 bytes" in capsys.readouterr().out


@pytest.mark.parametrize("argv, expected", [
    (["--emit", "cubin"], "is binary: name a file with -o"),
    (["--emit", "amdgcn"], "sm_90a has no stage 'amdgcn'. It has: ttgir, ptx, cubin"),
])
def test_compile_refuses(compiler, capsys, argv, expected):
    assert main(["compile", f"{compiler.file}:kernel", "--signature", "*fp32,i32,i32", *argv]) == 1
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("name, expected", [
    ("add.py", "names no function"),
    ("nowhere.py:kernel", "no file 'nowhere.py'"),
    ("no.such.module:kernel", "no file and no module 'no.such.module'"),
    ("{file}:lost", "has no 'lost'. It has: kernel, tuned"),
])
def test_load_refuses(compiler, name, expected):
    with pytest.raises(CommandError, match=expected):
        load(name.format(file=compiler.file))


def test_a_function_that_is_no_kernel(compiler):
    with pytest.raises(CommandError, match="is a function, not a kernel"):
        kernel_of(load(f"{compiler.file}:add"), "add.py:add")


@pytest.mark.parametrize("release, told", [("13.0", True), ("12.9", True), ("13.3", False), ("13.10", False)])
def test_doctor_says_of_an_old_assembler_what_it_gets_wrong(release, told):
    tools = SimpleNamespace(ptxas_blackwell=SimpleNamespace(version=release, path="/bin/ptxas"))
    assert ("gets some dots of Hopper wrong" in doctor._tool(tools, "ptxas_blackwell")) == told


def test_doctor_says_what_does_not_work_and_goes_on(monkeypatch, capsys):
    def refuse(*args, **kwargs):
        raise RuntimeError("no compiler today")

    monkeypatch.setattr("mimw.runtime.compile_kernel.compile_kernel", refuse)
    monkeypatch.setitem(sys.modules, "mimw.cli.probes", SimpleNamespace(
        copy_plain=None, copy_between_tasks=None, SIGNATURE={}))
    monkeypatch.setattr(mimw.cli, "probes", sys.modules["mimw.cli.probes"], raising=False)
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "compile for sm_90a   no: no compiler today" in lines
    assert "compile for gfx950   no: no compiler today" in lines
    assert lines[-1].startswith("launch")
