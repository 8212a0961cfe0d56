"""`--gpus`: scripts that make a `mimw.World()`, functions that name a launch, kernels with arguments from the command line."""

import json
import sys

import pytest

import mimw
from mimw.cli import main
from tests.compiling import to_ttgir

CASE = """
import numpy as np
import mimw
from tests.kernels.several_gpus import gathered, gathering, stream

def case():
    return gathering(len(mimw.World()))

if __name__ == "__main__":
    kernel, grid, args, meta = case()
    kernel[grid](*args)
    print(len(args[0]), "ranks", (args[2][1] == gathered(len(args[0]))).all())
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    for name in ("MIMW_GPUS", "MIMW_SIMULATE", "MIMW_TIMELINE"):
        monkeypatch.setenv(name, "")      # what the command sets is undone
    monkeypatch.setattr(mimw, "install_aliases", lambda: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "case.py").write_text(CASE)
    return str(tmp_path / "case.py")


def test_simulate(script, tmp_path, capsys):
    assert main(["simulate", "--gpus", "2", "--timeline", str(tmp_path / "two.svg"), script]) == 0
    assert "2 ranks True" in capsys.readouterr().out
    assert "links / rank 1 to rank 0" in (tmp_path / "two.svg").read_text()


def test_check_a_function(script, capsys):
    assert main(["check", f"{script}:case", "--gpus", "2", "--seeds", "2"]) == 0
    assert "ok: nothing found in 2 runs" in capsys.readouterr().out


WORDS = ["symmetric:i32[1]", "symmetric:i32[1]", "symmetric:i32[1]", "i32[3]", "world", "3"]


def test_check_a_kernel(script, capsys):
    assert main(["check", f"{script}:stream", "--gpus", "2", "--seeds", "2", "--args", *WORDS]) == 0
    words = ["--json", "--mend-time", "0", "--args", "i32[1]", *WORDS[1:]]
    assert main(["check", f"{script}:stream", "--gpus", "2", "--seeds", "2", *words]) == 1
    assert json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["findings"][0]["kind"] == "PeerUnreachable"


def test_timeline(script, tmp_path, capsys):
    assert main(["timeline", f"{script}:case", "--gpus", "2", "-o", str(tmp_path / "two.json")]) == 0
    said = capsys.readouterr().out
    assert " us at 1,980 MHz" in said and "rank 1 to rank 0" in said and "signal flags" in said
    events = json.loads((tmp_path / "two.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert {"links", "rank 0, CTA 0", "rank 1, CTA 1"} <= set(names)


def test_compile(script, capsys, monkeypatch):
    """And so `explain`, which names the kernel in the same way."""
    monkeypatch.setattr("mimw.runtime.compile_kernel.compile_kernel", to_ttgir)
    assert main(["compile", f"{script}:case", "--gpus", "2", "--emit", "recorded"]) == 0
    assert "peer_pointer" in capsys.readouterr().out


@pytest.mark.parametrize("words, said", [
    (["explain", "SCRIPT:stream", "--gpus", "2"], "is the same for any number of GPUs"),
    (["check", "SCRIPT:stream", "--args", *WORDS], "is for several GPUs: give --gpus N"),
    (["check", "SCRIPT:case", "--gpus", "0"], "give a number of 1 or more"),
    (["timeline", "SCRIPT:case", "--gpus", "2", "--measure"], "--gpus predicts a launch on several GPUs"),
    (["check", "SCRIPT:stream", "--gpus", "2", "--args", "symmetric:fp16[32,32]/16,16"], "an array can be symmetric"),
])
def test_misuse(script, words, said, capsys):
    assert main([word.replace("SCRIPT", script) for word in words]) in (1, 2)
    assert said in capsys.readouterr().err
