"""A bug of ours says so, names what to report, and writes the file to attach; a user's mistake does neither."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import tlx
from mimw.errors import AssemblerError, AssemblerMissing, InternalError, InvalidProgram, KernelError
from mimw.runtime.compile_kernel import compile_kernel

STAGES = "mimw.compiler.pipeline.stages"


def kernel():
    """A kernel that nothing is remembered of."""

    @mimw.jit
    def stores(x):
        tlx.fence("gpu")
        tl.store(x + tl.arange(0, 32), 1)

    return stores


@pytest.fixture
def folder(tmp_path, monkeypatch):
    import tempfile
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def broken(*args, **keywords):
    return {}["no such op"]


def invalid(*args, **keywords):
    raise InvalidProgram("operand 'a' has no type", "%1 = add %a")


@pytest.mark.parametrize("use", [lambda one: mimw.simulate(one, (1, ), np.zeros(32, np.int32)),
                                 lambda one: mimw.compile(one, (1, ), np.zeros(32, np.int32)),
                                 lambda one: mimw.check(one, (1, ), np.zeros(32, np.int32))], ids=["simulate", "compile", "check"])
@pytest.mark.parametrize("bug, kind, text", [
    (broken, InternalError, "a bug in mimw, not in your kernel: KeyError: 'no such op' at mimw/compiler/pipeline/stages.py:"),
    (invalid, InvalidProgram, "operand 'a' has no type\n  >> %1 = add %a\nThis is a bug in mimw, not in your kernel.\n")])
def test_a_bug_of_ours_names_what_to_report(bug, kind, text, use, folder, monkeypatch):
    monkeypatch.setattr(sys.modules[STAGES], "run_passes", bug)
    with pytest.raises(kind) as caught:
        use(kernel())
    message = str(caught.value)
    assert text in message and not isinstance(caught.value, KernelError)
    where = f"Kernel 'stores' of {re.escape(__file__)}"
    assert re.search(rf"{where}:\d+ was compiled for sm_90a by mimw {mimw.__version__} over Triton", message)
    path = Path(re.search(r"attach (\S+): it holds the versions, the kernel, its program", message)[1])
    report = path.read_text()
    assert path.parent == folder and len(list(folder.iterdir())) == 1
    assert all(f"== {part}\n" in report for part in ("versions", "chip", "options", "kernel", "program", "traceback"))
    assert "def stores(x):" in report and "num_warps = 4" in report and "kernel stores(%x: *i32" in report
    assert "run_passes" in report and bug.__name__ in report


def test_a_bug_in_lowering_and_one_of_the_simulator(folder, monkeypatch):
    monkeypatch.setattr(sys.modules[STAGES], "lower", broken)
    with pytest.raises(InternalError, match="attach .*mimw-report-"):
        mimw.compile(kernel(), (1, ), np.zeros(32, np.int32))
    monkeypatch.setattr(sys.modules["mimw.runtime.simulate"], "run", broken)
    with pytest.raises(InternalError, match="KeyError: 'no such op'"):
        mimw.simulate(kernel(), (1, ), np.zeros(32, np.int32))


def test_where_no_file_can_be_written_the_traceback_stays(folder, monkeypatch):
    monkeypatch.setattr(sys.modules[STAGES], "run_passes", broken)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "none"))
    with pytest.raises(InternalError, match="Mend: report it with the kernel's text and the traceback.") as caught:
        mimw.simulate(kernel(), (1, ), np.zeros(32, np.int32))
    assert len(caught.traceback) > 4


def test_mistakes_of_the_user_write_nothing(folder):
    @mimw.jit
    def wrong(x):
        tlx.fence("gpu")
        tl.store(x, nowhere)  # noqa: F821

    for use in (lambda: mimw.simulate(wrong, (1, ), np.zeros(32, np.int32)), lambda: mimw.simulate(kernel(), (1, ), "text")):
        with pytest.raises(mimw.errors.MimwError):
            use()
    assert not list(folder.iterdir())


def test_an_assembler_that_cannot_be_run_is_named(tmp_path, monkeypatch):
    """And is no folder that cannot be written."""
    tool = tmp_path / "my_assembler"
    tool.write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", str(tool))
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tool))
    with pytest.raises(AssemblerMissing) as caught:
        compile_kernel(kernel(), {"x": "*i32"})
    assert f"{tool}, which makes the binary, cannot be run: Permission denied\nMend: make it executable" in str(caught.value)
    assert "cache" not in str(caught.value).replace(str(tmp_path), "") and isinstance(caught.value, OSError)


def test_assembly_that_ptxas_does_not_take(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))

    @mimw.jit
    def wrong(x):
        value = tl.inline_asm_elementwise("bogus.b32 $0, $1;", "=r,r", [tl.arange(0, 32)], dtype=tl.int32, is_pure=True, pack=1)
        tl.store(x + tl.arange(0, 32), value)

    with pytest.raises(AssemblerError, match="ptxas does not take the code of 'wrong': .*'bogus'") as caught:
        compile_kernel(wrong, {"x": "*i32"})
    from triton.runtime.errors import PTXASError
    assert isinstance(caught.value, PTXASError) and caught.value.sites and "inline assembly" in caught.value.hint
