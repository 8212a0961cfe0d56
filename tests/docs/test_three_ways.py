"""The three kernels of docs/THREE_WAYS.md are run as they stand there."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import mimw

PAGE = Path(__file__).parents[2] / "docs" / "THREE_WAYS.md"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path_factory.mktemp("page") / "three_ways.py"
    file.write_text("\n\n".join(blocks))
    spec = importlib.util.spec_from_file_location("three_ways", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["plain", "with_tlx", "with_a_pipe"])
def test_all_three_sum_the_rows(kernels, machine, name):
    x = np.arange(7 * 256, dtype=np.float32).reshape(7, 256) % 13
    y = np.zeros(256, np.float32)
    source = x if name == "plain" else mimw.TensorDescriptor.from_tensor(x, [1, 256])
    machine.launch(getattr(kernels, name), (1, ), source, y, 7, 256)
    assert (y == x.sum(0)).all()
