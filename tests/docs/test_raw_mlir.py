"""The examples of docs/RAW_MLIR.md are declared, and the first one computes a softmax."""

import linecache
import re
import runpy
from pathlib import Path

import numpy as np

import mimw

PAGE = Path(__file__).parents[2] / "docs" / "RAW_MLIR.md"


def test_the_examples_run():
    names, text = {}, PAGE.read_text()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        file = f"<{PAGE.name} {number}>"      # the kernel's source is looked for under this name
        linecache.cache[file] = len(block), None, block.splitlines(keepends=True), file
        exec(compile(block, file, "exec"), names)
    e = np.exp(names["x"])
    np.testing.assert_allclose(names["out"], e / e.sum(1, keepdims=True), rtol=1e-5)
    assert names["scale"].dialect == "mlir"


def test_the_text_with_a_layout_runs(tmp_path):
    """The block of MLIR, called with a buffer of 256 numbers."""
    text = re.search(r"```mlir\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    (tmp_path / "double.py").write_text(f'''import mimw, triton.language as tl
from mimw import tle, tlx

@tle.raw.dialect(name="mlir", source="""{text}""")
def double(b): ...

@mimw.jit
def kernel(x, y):
    tile = tlx.local_alloc((256, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + tl.arange(0, 256)))
    tl.store(y + tl.arange(0, 256), tle.raw.call(double, [tile[0]]))
''')
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    mimw.simulate(runpy.run_path(str(tmp_path / "double.py"))["kernel"], (1, ), x, y)
    assert (y == 2 * x).all()
