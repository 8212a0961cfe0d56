"""Tutorial 27: its reports and texts on the simulator, its kernels on the GPU, and the edits that it proposes."""

import re
from pathlib import Path

import numpy as np
import pytest

import mimw
from mimw.testing import compare
from mimw.tools.orchestrate import Plan, choose

SAID = Path(__file__).parents[2] / "tutorials" / "27_orchestrate.py"


@pytest.fixture(scope="module")
def product(tutorial):
    """(the orchestration, its launch, expected) of a small product."""
    launch, expected = tutorial.small_gemm(128, 128, 256)
    grid, args, meta = launch
    found = mimw.orchestrate(tutorial.gemm, grid, *args, plan=tutorial.GEMM_PLAN, seeds=2, limit=20, measure=False, **meta)
    return found, launch, expected


def test_the_report_of_a_product(product):
    """What the file quotes is what is printed."""
    found, _, _ = product
    assert found.certificate.ok and not found.refused
    quoted = re.findall(r"^#     ((?:1 x 4|pipe|equal).*)$", SAID.read_text(), re.MULTILINE)
    assert len(quoted) == 3
    for line in quoted:
        assert re.search("^  " + re.escape(line).replace(r"\.\.\.", ".*"), str(found), re.MULTILINE), line


def test_attention(tutorial, capsys):
    kernel, grid, args, meta = case = tutorial.case()
    assert tutorial.simulated(kernel, tutorial.ATTENTION_PLAN, (grid, args, meta), case.expected["o_desc"]) < 1e-3
    assert re.search(r"2 x 4 warps, delayed, .*\n(.*\n)*.*this product is done one trip later", capsys.readouterr().out)


def test_at_a_first_launch(tutorial, product, monkeypatch, tmp_path):
    """`easy` is right; here with one plan in place of all."""
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(choose, "plans", lambda *_: iter([Plan(stages=2)]))
    _, (grid, args, meta), expected = product
    c = args[2].base.array
    c[:] = np.nan
    tutorial.easy[grid](*args, **meta)
    compare(c.astype(np.float32), expected, rtol=2e-3, atol=2e-2)
    assert "x" in tutorial.easy.why(grid, *args, **meta)


@pytest.mark.long(but=["an address*"], everywhere=True)
@pytest.mark.parametrize("old, new, said", [
    ("y = b_desc.load([k, n])", "y = b_desc.load([k + tl.where(tl.max(tl.max(acc, 1), 0) > 1e9, 1, 0), n])", "line 41: "),
    ("        acc = tl.dot(x, y, acc)\n", "        acc = tl.dot(x, y, acc)\n        a_desc.store([m, k], x)\n", "line 40: ")],
    ids=["an address that follows from the sum", "a store to what is loaded"])
def test_edits_of_the_plain_kernel(tutorial, edited, old, new, said):
    changed = edited(old, new)
    (grid, args, meta), _ = tutorial.small_gemm(128, 128, 256)
    found = mimw.orchestrate(changed.gemm, grid, *args, plan=tutorial.GEMM_PLAN, measure=False, **meta)
    assert any(line.startswith(said) for line in found.refused), found.refused
    assert not found.plan or found.certificate.ok


@pytest.mark.parametrize("old, new, said", [
    (r"\n *x_y\.reader\(\)\.release\(chunk - 1, pred=chunk > 0\)[^\n]*(?=\n *chunk \+= 1)", "", "WaitCycle"),
    (r"\n *acc = tlx\.async_dot_wait\(1, acc\)", "", "OperandOverwritten"),
    (r"release\(chunk - 1, pred=chunk > 0\)(?=[^\n]*\n *chunk \+= 1)", "release(chunk)", "ProtocolError")],
    ids=["no release", "no wait", "a chunk too early"])
def test_edits_of_the_text(tutorial, product, tmp_path, old, new, said):
    found, (grid, args, _), _ = product
    text, times = re.subn(old, new, found.source)
    assert times == 1
    module = tutorial.module_of(text, tmp_path)
    report = mimw.check(module.gemm, grid, *module.arguments(grid, *args), seeds=2, num_warps=4)
    assert not report.ok and said in str(report)


@pytest.mark.gpu
def test_it_measures(tutorial, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(SAID.parent))
    tutorial.measure(1024)
    said = capsys.readouterr().out
    assert "orchestrated GEMM" in said and "orchestrated attention" in said
