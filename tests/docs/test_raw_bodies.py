"""The examples of docs/RAW_BODIES.md run, and its table of ops is what there is."""

import linecache
import re
from pathlib import Path

import numpy as np

import mimw
from docs.support import raw_ops

PAGE = Path(__file__).parents[2] / "docs" / "RAW_BODIES.md"


def test_the_examples_run(capsys):
    names = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)):
        file = f"<{PAGE.name} {number}>"      # the source of kernels and bodies is looked for under this name
        linecache.cache[file] = len(block), None, block.splitlines(keepends=True), file
        exec(compile(block, file, "exec"), names)
    best = np.maximum.accumulate(names["x"])
    assert (names["y"] == np.where(best > 0.5, best, 0)).all()
    assert capsys.readouterr().out == f"block 0: the largest of all is {best[-1]:g}\n"
    x, y = np.arange(1024, dtype=np.float32).reshape(16, 64), np.zeros((64, 16), np.float32)
    mimw.simulate(names["transposed"], (1, ), x, y)
    assert (y == x.T).all()


def test_the_table_of_ops():
    assert raw_ops.shown() == raw_ops.table(), "python docs/support/raw_ops.py writes it anew"
