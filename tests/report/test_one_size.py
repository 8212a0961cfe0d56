"""One kernel has one size of shared memory: explain, compile, the table and the pages of a timeline, a run and a check say it."""

import json
import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.cli import main
from mimw.cli.starts import gemm, layer_norm, two_tasks
from mimw.compiler.pipeline.binary import kept_by_amdgcn
from mimw.report import resource_table
from mimw.target import TARGETS
from tests.kernels import portable


@mimw.jit
def transposed(x, y, SIZE: tl.constexpr):
    """Nothing but scratch: a transposed tile changes its layout through shared memory, a sum meets there."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, SIZE)
            tile = tl.trans(tl.load(x + at[:, None] * SIZE + at[None, :]))
            tl.store(y + at[:, None] * SIZE + at[None, :], tile + tl.sum(tl.sum(tile, 1), 0))
        with tlx.async_task(num_warps=1):
            tl.store(y + SIZE * SIZE, 0.0)


def _case(name):
    if name == "softmax":
        x, y = np.zeros((8, 64), np.float32), np.zeros((8, 64), np.float32)
        return portable.softmax, (2, ), [mimw.TensorDescriptor.from_tensor(one, [1, 64]) for one in (x, y)] + [4, 64], {}
    if name == "transposed":
        return transposed, (1, ), [np.zeros((64, 64), np.float32), np.zeros(64 * 64 + 1, np.float32), 64], {}
    a, b, c = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16)
    return portable.pipelined_gemm, (1, 1), [a, b, c, 64, 64, 64], dict(BM=64, BN=64, BK=32, STAGES=3)


def _text(page):
    """The text of a page, without its pictures."""
    text = re.sub(r"<(script|style|svg)[^>]*>.*?</\1>", "", page.html(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


@pytest.mark.long(but=["layer_norm", "two_tasks", "pipelined-amd"], everywhere=True)
@pytest.mark.parametrize("case, target", [
    (gemm.case, "sm_90a"), (two_tasks.case, "sm_100a"), (layer_norm.case, "sm_90a"), (lambda: _case("softmax"), "gfx942"),
    (lambda: _case("pipelined"), "gfx950"), (lambda: _case("pipelined"), "sm_80"), (lambda: _case("transposed"), "sm_90a"),
], ids=["gemm", "two_tasks", "layer_norm", "softmax", "pipelined-amd", "pipelined", "transposed"])
def test_everybody_says_the_same_bytes(case, target):
    kernel, grid, args, meta = case()
    explained = mimw.explain(kernel, grid, *args, target=target, **meta)
    asked = explained.compiled.shared_bytes
    assert f"{asked} bytes of shared memory" in str(explained.compiled) and explained.as_json()["shared_bytes"] == asked
    text = str(explained)
    if explained.compiled.program is None:      # Triton's own: nothing of it is drawn
        assert f"{asked} bytes of shared memory" in str(explained)
        return
    line = next(line for line in explained.sections[f"Tasks on {target}"].splitlines() if line.startswith("shared memory: "))
    assert line.startswith(f"shared memory: {asked} of ")
    assert f"\n{asked} bytes; at most " in explained.sections["Shared memory"]
    if counters := kept_by_amdgcn(explained.compiled.stages["amdgcn"]) if target.startswith("gfx") else 0:
        assert line.endswith(f"; besides {counters} of counters, for which no launch asks")
        assert f"{asked + counters} of" in str(explained) and f"bytes, {counters} of them counters" in str(explained)
    pages = [mimw.simulate(kernel, grid, *args, target=target, **meta)._page(), explained.compiled._page(),
             mimw.check(kernel, grid, *args, target=target, seeds=1, shrink=False, rounds=False, **meta)._page()]
    if target != "sm_80":       # of which there is no cost model
        pages.append(mimw.predict(kernel, grid, *args, target=target, **meta)._page())
    for text in map(_text, pages):
        assert line in text and re.search(r"[Ss]hared memory ([\d,]+) of", text)[1] == f"{asked:,}"


def test_what_is_not_compiled_is_said_to_be_planned():
    kernel, grid, args, _ = _case("transposed")
    table = resource_table(mimw.explain(kernel, grid, *args).compiled.program, TARGETS["sm_90a"])
    assert "shared memory: 0 of 232448 bytes (0.0 %), as planned: scratch of the compiled kernel is not known here" in table


def test_so_do_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "gemm"]) == 0
    capsys.readouterr()
    sizes = []
    for command in ("compile", "explain"):
        assert main([command, "gemm.py:case", "--json", *(["--emit", "ttgir"] if command == "compile" else [])]) == 0
        sizes.append(json.loads(capsys.readouterr().out)["shared_bytes"])
    for command in (["timeline", "gemm.py:case", "-o", "page.html"], ["simulate", "--timeline", "page.html", "gemm.py:case"]):
        assert main(command) == 0
        sizes.append(int(re.search(r"shared memory: (\d+) of 232448", (tmp_path / "page.html").read_text())[1]))
    assert len(set(sizes)) == 1 and sizes[0] > 70_000
