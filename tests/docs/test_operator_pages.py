"""docs/operators/: a page for each operator, up to date, whose example runs; the table of all; chips as simulating finds them."""

import re

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

import mimw.ops.distributed  # noqa: E402
from docs.support import operator_chips, operator_pages, operator_speed, operator_table, performance  # noqa: E402
from docs.support.operator_examples import OF_ONE, OF_SEVERAL  # noqa: E402
from docs.support.operator_facts import DOCS, TOOLS, operators_of_torch, owner, shown  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
PAGES = {one.title: DOCS / one.file for one in shown()}
KEPT = operator_chips.kept()


def test_they_are_up_to_date():
    """Else: python docs/support/operator_pages.py"""
    assert operator_pages.main(["--check"]) == 0


def test_every_operator_has_a_page_with_every_part():
    assert set(PAGES) == {*(mimw.ops.__all__), *(f"distributed.{name}" for name in mimw.ops.distributed.__all__)} - {
        "Available", "Explanation", "SimulationWarning", "TopK", *TOOLS,
        "distributed.Dispatched", "distributed.Handle", "distributed.Listed"}
    for path in PAGES.values():
        text = path.read_text()
        assert re.findall(r"^## (.*)", text, re.M) == ["Where it runs", "Signature", "Errors", "Speed", "Source"]
        assert all(part.strip() for part in re.split(r"^## .*", text, flags=re.M)), path


def test_every_operator_of_torch_stands_on_one_page():
    text = "\n".join(path.read_text() for path in PAGES.values())
    for name, room in operators_of_torch().items():
        assert text.count(f"`torch.ops.mimw.{name}`") == 1 and owner(name, room) in room.__all__


def test_the_table_names_chips_second():
    """Of all that have an example; `others` are all but the first one."""
    table = operator_table.text(KEPT)
    heads = [line for line in table.splitlines() if line.startswith("| operator")]
    assert len(heads) == 2 and all(head.split(" | ")[1] == "chips" for head in heads)
    assert "| sm_90a: `attention`; others: `plain_attention` | bf16, fp16, fp32 | yes |" in table
    assert all(f"({one.file})" in table for one in shown())
    assert all(list(row) == list(operator_chips.CHIPS) for row in KEPT.values()) and set(KEPT) == set(OF_ONE)


def test_a_page_has_its_example():
    for name, path in PAGES.items():
        example = (OF_SEVERAL if name.startswith("distributed.") else OF_ONE)[name.removeprefix("distributed.")]
        assert f"```python\n{example}```\n" in path.read_text()


@pytest.mark.long(but=["every other one"], everywhere=True)     # the test below runs the others, each as another chip
@pytest.mark.parametrize("first", [0, 1], ids=["every other one", "the others"])
def test_the_example_runs_by_the_kernels_that_the_page_names(first):
    names = list(OF_ONE)[first::2]
    assert {name: operator_chips.run(name) for name in names} == {name: KEPT[name]["sm_90a"] for name in names}


def test_chips_are_those_that_simulating_finds(request):
    """Every other operator as one other chip, all chips in turn, by `--long` each; docs/support/operator_pages.py finds all."""
    others, examples = operator_chips.CHIPS[1:], list(OF_ONE) if request.config.getoption("long") else list(OF_ONE)[1::2]
    for at, chip in enumerate(others):
        names = examples[at::len(others)]
        found = operator_chips.found([chip], names)
        assert found == {name: {chip: KEPT[name][chip]} for name in names}


def test_examples_of_several_gpus_run(request):
    """Of the pages under operators/distributed, every other one, by `--long` all; by two ranks of the CPU, one behind the other."""
    examples = list(OF_SEVERAL.items())[::1 if request.config.getoption("long") else 2]

    def work(rank):
        torch.manual_seed(rank)
        for name, text in examples:
            exec(compile(text, f"<example of {name}>", "exec"), {})
        return len(examples)

    assert len(OF_SEVERAL) == 14 and at_ranks(2, work) == [len(examples)] * 2


def test_an_example_that_is_wrong_is_found(monkeypatch):
    monkeypatch.setitem(OF_ONE, "swiglu", OF_ONE["swiglu"].replace("silu(gate) * up", "silu(up) * gate"))
    with pytest.raises(AssertionError, match="not close"):
        operator_chips.run("swiglu")


def test_speed_names_lines_and_sections_that_there_are():
    headings = set(re.findall(r"^## (.*)", (DOCS / "performance.md").read_text(), re.M))
    lines = {standing.peer.operator for standing in operator_speed.peers.standings()}
    for named, sections in operator_speed.MEASURED.values():
        assert set(named) <= lines and set(sections) <= headings
    assert set(operator_speed.MEASURED) <= set(PAGES) and performance.DOCS == DOCS
    measured = [name for named, _ in operator_speed.MEASURED.values() for name in named]
    assert lines - {""} == set(measured)        # each line of the table stands on a page
    assert "| **1.05** |" in "\n".join(operator_speed.lines("matmul", "performance.md"))
    assert operator_speed.short("swiglu") == "-" and operator_speed.NOT_BY_ITSELF in list(operator_speed.lines("swiglu", ""))
