"""docs/OPERATORS.md: a row for each operator, which says of derivatives and autocast what is so; its code and the README's run."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from mimw.ops.operator import LOWER, OPERATORS  # noqa: E402
from tests.docs.blocks import READ_ONLY, blocks  # noqa: E402

ROOT = Path(__file__).parents[2]
SEVERAL = "## Of several GPUs"
WHOLE = (ROOT / "docs" / "OPERATORS.md").read_text()
PROGRAMS = [block for block in blocks(ROOT / "docs" / "OPERATORS.md")
            if block.language == "python" and not block.mark.startswith(READ_ONLY)]
PAGE = WHOLE.partition("<!-- end of what is made -->")[2]       # behind the table of all, which is that of test_operator_pages.py
COLUMNS = ("operator", "on sm_90", "elsewhere, and for what TMA does not take", "types", "shapes and strides", "derivative",
           "under autocast", "tested on")


def rows(page: str = PAGE.partition(SEVERAL)[0], columns: tuple[str, ...] = COLUMNS) -> dict[str, dict[str, str]]:
    """Operator -> column -> cell."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    head, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert tuple(head) == columns
    return {name: dict(zip(columns, row)) for row in body for name in re.findall(r"`(\w+)`", row[0])}


def of_one_gpu() -> set[str]:
    return {name for name, operator in OPERATORS.items()        # other tests of this process may have made some of their own
            if operator.run.__module__.startswith("mimw.ops.")
            and not operator.run.__module__.startswith("mimw.ops.distributed")}


def test_every_operator_has_its_row():
    assert set(rows()) == of_one_gpu()
    assert set(ops.__all__) - {"Available", "Explanation", "SimulationWarning", "TopK", "available", "explain",
                                 "scaled_dot_product_attention"} <= set(OPERATORS)


def test_what_the_rows_of_several_gpus_say():
    import mimw.ops.distributed
    told = rows(PAGE.partition(SEVERAL)[2], tuple(column for column in COLUMNS if column not in ("under autocast", "tested on")))
    assert set(told) <= set(mimw.ops.distributed.__all__)
    for name, row in told.items():
        assert row["derivative"].startswith("yes") == OPERATORS[name].differentiable
        assert {path.name for path in (ROOT / "src/mimw/kernels").iterdir()} & set(re.findall(r"`(\w+)`", row["on sm_90"]))


@pytest.mark.parametrize("name", sorted(of_one_gpu()))
def test_what_the_row_says(name):
    row, operator = rows()[name], OPERATORS[name]
    assert row["derivative"].startswith("yes") == operator.differentiable
    types = {"as it is": None, "the region's type": LOWER, "fp32 on a GPU": torch.float32}
    assert types[row["under autocast"]] == operator.autocast
    kernels = {path.name for path in (ROOT / "src" / "mimw" / "kernels").iterdir()}
    assert kernels & set(re.findall(r"`(\w+)`", row["on sm_90"]))


def test_the_contracts_are_those_of_the_code():
    import mimw.ops.distributed  # noqa: F401
    held = list(sys.path)
    sys.path.insert(0, str(ROOT / "docs" / "support"))
    try:
        program = import_module("contracts")
    finally:
        sys.path[:] = held
    _, _, rest = PAGE.partition(program.BEGIN)
    assert rest.partition(program.END)[0].strip() == program.written(), "run python docs/support/contracts.py"


def test_the_example_runs():
    runs = [{} for _ in PROGRAMS]
    for block, names in zip(PROGRAMS, runs):
        exec(block.text, names)
    names = runs[0]
    torch.testing.assert_close(names["c"], names["a"] @ names["b"])
    assert names["lse"].shape == (1, 2, 5)
    torch.testing.assert_close(names["values"], names["a"].gather(1, names["indices"]))
    (recorded, ) = (run["mod"].text for run in runs if "mod" in run)
    assert f"```text\n{recorded}\n```" in WHOLE


def test_the_readmes_example_runs():
    names = {}
    exec(re.search(r"<!-- operators -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1), names)
    torch.testing.assert_close(names["a"].grad, names["b"].sum(1).expand(48, 33))
    assert torch.equal(names["indices"], torch.topk(names["a"], 3)[1])
