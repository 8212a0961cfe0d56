"""Where nothing can be written: one line, and an exit status that says so."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.cli import doctor, main
from mimw.compiler.triton_port.runtime import MockTensor
from mimw.errors import AssemblerMissing, CacheError, SimulatorMisuse
from mimw.runtime.compile_kernel import compile_kernel

PROBE = ["mimw.cli.probes:copy_between_tasks", "--signature", "*fp32, *fp32"]


@mimw.jit
def one(x):
    tl.store(x, 1.0)


@pytest.fixture
def unwritable(monkeypatch):
    """A cache that nobody can write, not even root."""
    monkeypatch.setenv("TRITON_CACHE_DIR", "/dev/null/cache")


@pytest.mark.parametrize("words", [
    ["compile", *PROBE, "-o", "{folder}/none/x.ttgir"], ["explain", *PROBE, "--svg", "{folder}/none/x.svg"],
    ["demo", "--out", "{folder}/none/x.svg"], ["timeline", "nothing.py:case", "-o", "{folder}/none/x.html"],
    ["simulate", "--timeline", "{folder}/none/x.html", "nothing.py"]], ids=lambda words: words[0])
def test_a_missing_folder_is_told_before_the_work(words, tmp_path, capsys):
    assert main([word.format(folder=tmp_path) for word in words]) == 1
    shown = capsys.readouterr()
    assert shown.err == f"mimw: cannot write {tmp_path}/none/x.{words[-1 if words[0] != 'simulate' else 2].rpartition('.')[2]}: " \
        f"there is no folder {tmp_path}/none.\n"
    assert not shown.out


def test_a_folder_in_the_way(tmp_path, capsys):
    assert main(["compile", *PROBE, "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"mimw: cannot write {tmp_path}: it is a folder.\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full stands for a full disk")
def test_a_full_disk(capsys):
    assert main(["compile", *PROBE, "-o", "/dev/full"]) == 1
    assert capsys.readouterr().err == "mimw: cannot write /dev/full: No space left on device.\n"


def test_the_timeline_of_a_simulated_launch(tmp_path, monkeypatch):
    monkeypatch.setenv("MIMW_TIMELINE", f"{tmp_path}/none/x.html")
    with pytest.raises(SimulatorMisuse, match="cannot be written to .*none/x.html: No such file"):
        mimw.simulate(one, (1, ), np.zeros(1, np.float32))
    monkeypatch.setenv("MIMW_TIMELINE", f"{tmp_path}/x.html")
    mimw.simulate(one, (1, ), np.zeros(1, np.float32))
    assert (tmp_path / "x.html").read_text()


def test_a_cache_that_cannot_be_written(unwritable, capsys):
    with pytest.raises(CacheError, match="cannot be kept in /dev/null/cache") as caught:
        compile_kernel(one, {"x": "*fp32"})
    assert isinstance(caught.value, OSError) and caught.value.errno == errno.ENOTDIR
    assert main(["compile", *PROBE]) == 1
    (line, ) = capsys.readouterr().err.splitlines()
    assert line.startswith("mimw: the compiled kernel cannot be kept") and "TRITON_CACHE_DIR" in line
    with pytest.raises(CacheError):
        one.warmup(MockTensor(tl.float32), grid=(1, ))
    assert not doctor._writable("/dev/null/cache")


def test_a_home_in_which_no_folder_can_be_made(monkeypatch, capsys, tmp_path):
    """The system then says that the folder is missing, as of a file that is not there; that is about the cache all the same."""
    monkeypatch.setenv("TRITON_CACHE_DIR", "/proc/nobody/.triton")
    assert main(["compile", *PROBE]) == 1
    (line, ) = capsys.readouterr().err.splitlines()
    assert line.startswith("mimw: the compiled kernel cannot be kept in /proc/nobody/.triton: ") and "TRITON_CACHE_DIR" in line
    assert not doctor._writable("/proc/nobody/.triton") and doctor._writable(f"{tmp_path}/none/.triton")


@pytest.mark.parametrize("number, kind, text", [(errno.ENOSPC, CacheError, "free space there and in the folder for temporary"),
                                                (errno.ENOENT, AssemblerMissing, "ptxas, which makes the binary, cannot be run"),
                                                (errno.EACCES, AssemblerMissing, "cannot be run: Permission denied\nMend: ")])
def test_what_the_system_says(number, kind, text, monkeypatch):
    def stock(*args, **keywords):
        raise OSError(number, os.strerror(number), None if number == errno.ENOSPC else "/opt/cuda/bin/ptxas")

    monkeypatch.setattr(sys.modules["mimw.compiler.pipeline"], "stock_compile", stock)
    with pytest.raises(kind, match=text):
        compile_kernel(one, {"x": "*fp32"})


def shell(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "MIMW": f"{sys.executable} -m mimw"})


def test_a_closed_pipe_is_quiet(tmp_path):
    """A program in a pipe is ended when nobody reads on; so are commands of ours, and scripts that they run."""
    (tmp_path / "long.py").write_text("for i in range(200_000): print(i)\n")
    done = shell(f"$MIMW run {tmp_path}/long.py | head -1")
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGPIPE, "0\n", "")
    done = shell("$MIMW compile mimw.cli.probes:copy_between_tasks --signature '*fp32, *fp32' --emit llir | true")
    assert (done.returncode, done.stderr) in ((128 + signal.SIGPIPE, ""), (0, ""))


def test_a_pipe_of_the_scripts_own_is_its_own_affair(tmp_path):
    (tmp_path / "own.py").write_text("raise BrokenPipeError('my socket')\n")
    done = shell(f"$MIMW run {tmp_path}/own.py")
    assert done.returncode == 1 and "BrokenPipeError: my socket" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full stands for a full disk")
def test_standard_output_on_a_full_disk():
    done = shell("$MIMW compile mimw.cli.probes:copy_between_tasks --signature '*fp32, *fp32' --emit ir > /dev/full")
    assert (done.returncode, done.stderr) == (1, "mimw: cannot write the output: No space left on device\n")
