"""A published script, as it stands, through every command."""

import os
import re
import subprocess
import sys

import pytest

from mimw.testing import gpu_available
from tests.processes import mimw

_SCRIPT = '''
import sys

import numpy as np
import triton
import triton.language as tl
import triton.language.extra.tlx as tlx


@triton.autotune(configs=[triton.Config({"N": 128}, num_warps=4)], key=["scale"])
@triton.jit(do_not_specialize=["scale"])
def scaled(source, target, scale, N: tl.constexpr):
    tile = tlx.local_alloc((N,), tl.float32, tl.constexpr(1))
    full = tlx.alloc_barriers(num_barriers=tl.constexpr(1), arrive_count=1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            tlx.barrier_wait(full[0], phase=0)
            tl.store(target + at, tlx.local_load(tile[0]) * scale)
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, N)
            tlx.local_store(tile[0], tl.load(source + at))
            tlx.barrier_arrive(full[0], 1)


def check(factor=3):
    source, target = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    scaled[(1,)](source, target, factor)
    assert (target == factor * source).all()
    print("right, factor", factor)


if __name__ == "__main__":
    check(int(sys.argv[1]))
'''
_KERNEL_ARGUMENTS = ("--signature", "*fp32, *fp32, i32", "--constexpr", "N=128")


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "scaled.py"
    path.write_text(_SCRIPT)
    return str(path)


def _mimw(*argv, **variables):
    run = mimw(*argv, **variables)
    assert (run.stderr, run.returncode) == ("", 0)
    return run.stdout


def test_run(script):
    assert _mimw("run", script, "5", MIMW_SIMULATE="1") == "right, factor 5\n"


@pytest.mark.skipif(gpu_available(), reason="Triton asks torch which GPU there is")
def test_a_script_without_torch_runs_without(script):
    """Torch takes a second or two to import."""
    with open(script, "a") as more:
        more.write('    print("torch" in sys.modules)\n')
    assert _mimw("run", script, "5", MIMW_SIMULATE="1") == "right, factor 5\nFalse\n"


def test_run_in_a_process_that_has_imported_nothing(script):
    run = subprocess.run([sys.executable, "-m", "mimw", "run", script, "5"], capture_output=True, text=True,
                         env=os.environ | {"MIMW_SIMULATE": "1"})
    assert (run.stdout, run.stderr, run.returncode) == ("right, factor 5\n", "", 0)


def test_simulate(script):
    assert _mimw("simulate", "--seed", "3", script, "7") == "right, factor 7\n"


@pytest.mark.parametrize("suffix, start", [("html", "<!doctype html>"), ("svg", "<svg")])
def test_timeline(script, tmp_path, suffix, start):
    picture = tmp_path / f"t.{suffix}"
    assert _mimw("simulate", "--timeline", str(picture), f"{script}:check") == f"right, factor 3\ntimeline: {picture}\n"
    assert picture.read_text().lower().startswith(start)


@pytest.mark.parametrize("target, stage, expected", [
    ("sm_90a", "ir", "local_alloc buffer<fp32[128] x 1>"),
    ("sm_90a", "ttgir", "ttg.warp_specialize"),
    ("sm_90a", "llir", "define"),
    ("sm_90a", "ptx", "mbarrier.init"),
    ("sm_90a", "sass", "SYNCS"),
    ("sm_100a", "ptx", ".target sm_100a"),
])
def test_compile(script, target, stage, expected):
    assert expected in _mimw("compile", f"{script}:scaled", *_KERNEL_ARGUMENTS, "--target", target, "--emit", stage)


def test_alignment_hints_give_the_code_of_a_launch(script):
    arguments = ("--constexpr", "N=128", "--target", "sm_90a", "--emit", "ptx")
    hinted = _mimw("compile", f"{script}:scaled", "--signature", "*fp32:16, *fp32:16, i32:16", *arguments)
    plain = _mimw("compile", f"{script}:scaled", *_KERNEL_ARGUMENTS, "--emit", "ptx")
    told = "// source, target: addresses count as unaligned, so this code differs from what a launch gets"
    assert plain.startswith(told) and "unaligned" not in hinted and hinted.count("divisibility") == 0
    assert hinted != plain.partition("\n")[2]
    some = "source=*fp32:16, target=*fp32, scale=i32:1"
    ttgir = _mimw("compile", f"{script}:scaled", "--signature", some, "--constexpr", "N=128")
    assert ttgir.startswith("// target: addresses count as unaligned") and ttgir.count("tt.divisibility = 16") == 1
    assert "%scale" not in ttgir


def test_compile_to_a_file(script, tmp_path):
    cubin = tmp_path / "scaled.cubin"
    _mimw("compile", f"{script}:scaled", *_KERNEL_ARGUMENTS, "--emit", "cubin", "-o", str(cubin))
    assert cubin.read_bytes().startswith(b"\x7fELF")


_TURN = '''
import triton.language as tl
import triton
import triton.language.extra.tlx as tlx


@triton.jit
def turn(source, target):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    rows = tlx.local_alloc((64, 64), tl.float32, tl.constexpr(1), layout=tlx.swizzled_layout.make_default(2))
    tlx.local_store(rows[0], tl.load(source + at))
    tl.store(target + at, tlx.local_load(tlx.local_trans(rows[0])))
'''


def test_explain_bank_conflicts(tmp_path):
    """A row of 64 words read down a column: all lanes in one bank."""
    path = tmp_path / "turn.py"
    path.write_text(_TURN)
    text = _mimw("explain", f"{path}:turn", "--signature", "*fp32, *fp32")
    counts = [line.split()[:5] for line in text.partition("Bank conflicts")[2].splitlines() if " line " in line]
    assert counts == [["0", "line", "11", "local_store", "rows"], ["31", "line", "12", "local_load", "rows"]]


def test_explain_says_what_a_found_layout_saves(tmp_path):
    path = tmp_path / "turn.py"
    path.write_text(_TURN.replace(", layout=tlx.swizzled_layout.make_default(2)", ""))
    text = _mimw("explain", f"{path}:turn", "--signature", "*fp32, *fp32")
    (line, ) = [line for line in text.partition("Bank conflicts")[2].splitlines() if "wavefronts" in line]
    now, before = (int(number) for number in re.findall(r"\d+", line))
    assert line.startswith("rows: ") and now * 2 <= before


def test_explain(script, tmp_path):
    picture = tmp_path / "barriers.svg"
    text = _mimw("explain", f"{script}:scaled", *_KERNEL_ARGUMENTS, "--svg", str(picture))
    assert [title for title in ("Tasks on sm_90a", "Layouts", "Shared memory", "Barriers") if f"{title}" not in text] == []
    assert "--full[1]--> default" in text
    assert picture.read_text().startswith("<svg")


def test_a_protocol_error_names_the_line_and_the_mend(script, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(_SCRIPT.replace("arrive_count=1", "arrive_count=2"))
    run = mimw("compile", f"{wrong}:scaled", *_KERNEL_ARGUMENTS)
    assert run.returncode == 1 and "Traceback" not in run.stderr
    assert run.stderr.startswith(f"mimw: TooFewArrivals at {wrong}:")


def test_doctor_tries_all_of_it():
    lines = _mimw("doctor").splitlines()
    assert [line for line in lines if line.startswith("simulate")][0].split()[1] == "yes"
    compiled = [line for line in lines if line.startswith("compile for")]
    assert [line.split()[2] for line in compiled] == ["sm_90a", "sm_100a", "gfx942", "gfx950", "gfx1250"]
    assert all(line.split()[3] == "yes," for line in compiled)
    tools = {line.split()[2]: line for line in lines if line.startswith("tools for")}
    assert all("yes: simulate, check, predict; not run on a chip yet" in tools[chip] for chip in ("gfx942", "gfx950"))
    assert "yes: simulate, check, no predictions" in tools["gfx1250"] and "not run on a chip yet" in tools["gfx1250"]
    assert any(line.startswith("simulate ascend_910b yes; no binary is made for it") for line in lines)
