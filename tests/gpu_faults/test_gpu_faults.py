"""Each row of docs/MEMORY_MODEL.md's table of faults: what the simulator says of it, and, on a GPU, how it ends there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mimw
from mimw import errors
from tests.gpu_faults import kernels
from tests.gpu_faults.__main__ import result_of
from tests.gpu_faults.rows import ROWS

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", ROWS)
def test_what_the_simulator_says(name):
    """An error of that class where the GPU faults, hangs or does what nobody defines; else the same result."""
    row, arguments = ROWS[name], ROWS[name].arguments()
    kernel = getattr(kernels, row.kernel)
    if not row.simulated:
        mimw.simulate(kernel, row.grid, *arguments, **row.meta)
        assert row.right(f"defined: {row.says(result_of(arguments))}")
        return
    with pytest.raises(errors.SimulationError) as error:
        mimw.simulate(kernel, row.grid, *arguments, **row.meta)
    assert re.fullmatch(row.simulated, error.value.kind), error.value
    assert error.value.sites[0].file.endswith("kernels.py") and (error.value.hint or row.simulated != "IllegalCopy")


def test_every_row_stands_in_the_table():
    table = (ROOT / "docs/MEMORY_MODEL.md").read_text()
    named = set(re.findall(r"`([^`|]+)`", table.partition("## What instructions require")[2].partition("\n## ")[0]))
    assert set(ROWS) <= named, sorted(set(ROWS) - named)


@pytest.mark.gpu
@pytest.mark.long(but=["two rows"])
@pytest.mark.parametrize("names", [("store at a negative row", "load at negative rows"), ()], ids=["two rows", "all"])
def test_how_each_row_ends_on_a_gpu(names):
    found = subprocess.run([sys.executable, "-m", "tests.gpu_faults", *names], cwd=ROOT, capture_output=True, text=True,
                           timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr
