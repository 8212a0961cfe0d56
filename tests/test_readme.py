"""The README: its kernel does what it says, its table is what the rows say, commands and links lead somewhere, it stays short."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import mimw
from docs.support import peers
from mimw.cli import main
from mimw.testing import compare
from tests.compiling import to_assembly

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CODE = re.search(r"<!-- kernel -->\n```python\n(.*?)```", README, re.DOTALL).group(1)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """From a file, since a kernel needs its source."""
    path = tmp_path_factory.mktemp("readme") / "readme.py"
    path.write_text(CODE)
    spec = spec_from_file_location("readme", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.softmax


def test_the_kernel_runs(kernel, machine):
    x = np.random.default_rng(0).standard_normal((14, 256)).astype(np.float32)
    y = np.zeros_like(x)
    rows = [mimw.TensorDescriptor.from_tensor(array, [1, 256]) for array in (x, y)]
    machine.launch(kernel, (2, ), *rows, 7, N=256)
    powers = np.exp(x - x.max(1, keepdims=True))
    compare(y, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_the_kernel_is_clean_and_compiles(kernel, check_kernel):
    x = np.ones((8, 64), np.float32)
    rows = [mimw.TensorDescriptor.from_tensor(array, [1, 64]) for array in (x, np.zeros_like(x))]
    check_kernel(kernel, (2, ), *rows, 4, N=64)
    signature = {"x": "tensordesc<fp32[1,64]>", "y": "tensordesc<fp32[1,64]>", "rows": "i32"}
    ptx = to_assembly(kernel, signature, {"N": 64}).stage("ptx")
    assert "cp.async.bulk.tensor" in ptx and "mbarrier.try_wait" in ptx


def test_it_is_short():
    body = CODE.partition("def softmax")[2].splitlines()[1:]
    assert len(body) == 10 and len(README.splitlines()) < 150


def test_the_table_is_what_the_rows_say():
    """Else: python docs/support/peers.py"""
    assert peers.main(["--check"]) == 0
    table = README.partition(peers.BEGIN)[2].partition(peers.END)[0]
    assert table.count("\n| ") == len(peers.PEERS) + 2 and "NVIDIA H200" in table
    below = [line.split(" | ")[5] for line in table.splitlines() if line.count(" | ") == 6]
    assert any(number.isdigit() for number in below), "misses stand beside what is won"


def test_links_lead_to_files():
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", README, flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?://|#)([^)\s]+)\)", outside)
    assert len(links) > 15 and [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_commands_work_in_their_order(tmp_path, monkeypatch, capsys):
    """Those that are quick; tests/cli runs the others on the same file."""
    lines = [line.partition("#")[0].split() for line in README.splitlines() if line.startswith("    m")]
    commands = [words for tool, *words in lines if tool == "mimw"]
    assert [words[0] for words in commands] == ["new", "run", "check", "explain", "timeline", "compile", "doctor"]
    assert [target for tool, target in (line for line in lines if line[0] == "make")] == ["demo", "test"]
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in ("demo", "test", "site"))
    monkeypatch.chdir(tmp_path)
    for words in (commands[0], commands[2]):
        assert not main(words), words
    for words in commands:
        with pytest.raises(SystemExit) as ended:
            main([words[0], "--help"])
        assert ended.value.code == 0
    assert "ok: nothing found" in capsys.readouterr().out
