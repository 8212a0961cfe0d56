"""Samples of warps by source line: what is read of ncu's and nvdisasm's texts. No GPU, and neither of them runs."""

import gzip
import sys
from types import SimpleNamespace

from benchmarks import hot_lines

HEAD = '"Address","Source","# Samples","Instructions Executed","stall_long_sb","stall_selected","stall_long_sb (Not Issued)"'
PRINTED = f'''"Kernel Name","counters_mark",
{HEAD}
"0x0","      EXIT","1","1","0","1","0"
"Kernel Name","gemm",
{HEAD}
"0x0","      LDL R1, [R2]","10","4","0","10","0"
"0x10","@P0   FADD R3, R1, 1","70","4","60","10","55"
"0x20","      EXIT","20","4","0","20","0"
'''
DISASSEMBLED = '''gemm:
	//## File "/a/kernel.py", line 7
        /*0000*/                   LDL R1, [R2] ;
	//## File "/a/kernel.py", line 9 inlined at "/a/kernel.py", line 3
        /*0010*/              @P0 FADD R3, R1, 1 ;
        /*0020*/                   EXIT ;
.L_x_1:
        /*0030*/                   BRA `(.L_x_1);
'''


def reported(monkeypatch, tmp_path, capsys, *words, disassembled=DISASSEMBLED) -> list[str]:
    (tmp_path / "hash").mkdir()
    (tmp_path / "hash" / "gemm.cubin").write_bytes(b"")
    (tmp_path / "kept").write_bytes(gzip.compress(PRINTED.encode()))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(hot_lines, "nvdisasm_path", lambda: "nvdisasm")
    monkeypatch.setattr(hot_lines.subprocess, "run", lambda *given, **how: SimpleNamespace(stdout=disassembled))
    monkeypatch.setattr(sys, "argv", ["hot_lines", "--read", str(tmp_path / "kept"), *words])
    hot_lines.main()
    return capsys.readouterr().out.splitlines()


def test_samples_are_summed_by_source_line(monkeypatch, tmp_path, capsys):
    first, most, least = reported(monkeypatch, tmp_path, capsys)
    assert first == "gemm: 3 instructions, 12 executed by warps, 4 of them of spilled registers; long_sb 60%, selected 40%"
    assert most.split() == ["90.0%", "8", "x", "kernel.py:9", "long_sb", "60.0%,", "selected", "30.0%"]
    assert least.split() == ["10.0%", "4", "x", "kernel.py:7", "selected", "10.0%"]


def test_instructions_and_the_number_of_lines(monkeypatch, tmp_path, capsys):
    lines = reported(monkeypatch, tmp_path, capsys, "--sass", "--lines", "1")
    assert len(lines) == 5 and lines[3].split()[:6] == ["70.0%", "4", "x", "1", "@P0", "FADD"]


def test_another_kernel_has_no_lines_here(monkeypatch, tmp_path, capsys):
    assert reported(monkeypatch, tmp_path, capsys, "--kernel", "other") == []


def test_the_cubin_of_other_code_says_nothing(monkeypatch, tmp_path, capsys):
    lines = reported(monkeypatch, tmp_path, capsys, disassembled=DISASSEMBLED.replace("FADD", "FMUL"))
    assert "no cubin in the cache has this code" in lines[1] and len(lines) == 2
