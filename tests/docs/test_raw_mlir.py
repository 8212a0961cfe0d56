"""The examples of docs/RAW_MLIR.md are declared, and the first one computes a softmax."""

import linecache
import re
from pathlib import Path

import numpy as np

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
