"""docs/COMING_FROM.md and the pages of docs/concepts/ name words that there are, ours and Gluon's; the Gluon kernel compiles."""

import importlib
import re
from pathlib import Path

import pytest
import triton
import triton.experimental.gluon.language as gl
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import GluonASTSource

import mimw
from mimw import tle, tlx

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "START.md", DOCS / "COMING_FROM.md", *sorted((DOCS / "concepts").glob("*.md"))]
HOPPER, BLACKWELL = gl.nvidia.hopper, gl.nvidia.blackwell
ROOTS = {"tlx": tlx, "tle": tle, "mimw": mimw, "gl": gl, "mbarrier": HOPPER.mbarrier, "tma": HOPPER.tma,
         "async_copy": HOPPER.async_copy, "cluster": HOPPER.cluster}


def names(page: Path) -> set[str]:
    """Every dotted name of a root above, in text and programs, but for PTX's, C++'s and those of files."""
    text = re.sub(r"`[^`\n]*::[^`\n]*`|^\| CUDA, PTX .*|^PTX ISA: .*", "", page.read_text(), flags=re.MULTILINE)
    found = re.findall(rf"(?<![\w./-])((?:{'|'.join(ROOTS)})(?:\.[A-Za-z]\w*)+)", text)
    return {name for name in found if not name.endswith(".md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_is_one(page):
    missing = []
    for name in names(page):
        root, *rest = name.split(".")
        value = ROOTS[root]
        for part in rest:
            value = getattr(value, part, None)
        missing += [name] if value is None else []
    assert missing == []


def test_words_of_gluon_in_the_table():
    """Those without a root: where the page says they are."""
    table = (DOCS / "COMING_FROM.md").read_text().partition("## Gluon")[2].partition("## TLX")[0]
    words = set(re.findall(r"`(fence_\w+|warpgroup_\w+|tcgen05_\w+|allocate_\w+)", table))
    assert len(words) == 7 and all(hasattr(HOPPER, word) or hasattr(BLACKWELL, word) for word in words)
    assert all(hasattr(gl.shared_memory_descriptor, word) for word in re.findall(r"`\.(\w+)", table))


def test_the_gluon_kernel_compiles(tmp_path, monkeypatch):
    text = re.search(r"<!-- compiled for sm_90a -->\n```python\n(.*?)```", (DOCS / "COMING_FROM.md").read_text(), re.DOTALL)[1]
    (tmp_path / "in_gluon.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    kernel = importlib.import_module("in_gluon").double_in_gluon
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    signature = {name: f"tensordesc<fp32[8,32],{layout!r}>" for name in ("x", "y")}
    ptx = triton.compile(GluonASTSource(kernel, signature, {}), target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "cp.async.bulk.tensor" in ptx and "fence.proxy.async" in ptx
