"""docs/operators/: a page for each operator of `mimw.ops` and `mimw.ops.distributed`, and the table of all in docs/OPERATORS.md.

    python docs/support/operator_pages.py           find out the chips, then write pages and table
    python docs/support/operator_pages.py --pages   with the chips that operator_chips.json has
    python docs/support/operator_pages.py --check   1 if a page is stale

Input: docstrings and contracts, an example (operator_examples.py), the rows of docs/OPERATORS.md, chips (operator_chips.py), ratios
(operator_speed.py). Output: Markdown. For example, docs/operators/matmul.md:

    # matmul      its example, where it runs, the signature with the contract, errors, ratios to peers, files
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]

from docs.support import operator_chips, operator_speed, operator_table
from docs.support.marked import write_or_check
from docs.support.operator_facts import BEGIN, DOCS, END, ROOT, TABLES, Operator, shown
from docs.support.operator_stubs import contracts
from docs.support.operator_table import Chips, by_kernels
from docs.support.reflow import WIDTH, reflow

FOLDER = DOCS / "operators"


def where(page: Operator, chips: Chips) -> Iterator[str]:
    """Chips, kernels, and what the row of docs/OPERATORS.md says."""
    if page.several:
        yield from ("On GPUs of sm_90a, one process a GPU. Tensors of the CPU are simulated: each rank simulates all of them.", "")
    else:
        yield from ("| chip | computes the example above |", "|---|---|")
        yield from (f"| {', '.join(names)} | {kernels} |" for kernels, names in by_kernels(chips[page.name]).items())
        yield from ("", "Found by simulating the example as each chip. Which kernel a call takes goes by its arguments, too:", "")
    yield from (f"* *{column}*: {linked(cell, page)}" for column, cell in page.row.items())
    yield ""


def linked(cell: str, page: Operator) -> str:
    """Names of other operators lead to their pages."""
    known = {one.name for one in shown() if one.several == page.several} - {page.name}
    return re.sub(r"`(\w+)`", lambda found: f"[{found[0]}]({found[1]}.md)" if found[1] in known else found[0], cell)


def refused(page: Operator) -> Iterator[str]:
    """What its contracts refuse, with the mend: rules that a call must keep."""
    rules = {rule.text: rule.mend for contract in contracts(page.function) for rule in contract.rules if rule.mend}
    lines = dict.fromkeys(line.text for contract in contracts(page.function) for line in contract.tensors)
    if not lines:
        yield from ("Kinds of errors stand above.", "")
        return
    yield from ("Kinds of errors stand above. Tensors have these types and shapes; a call with others is refused, with the "
                "argument and the numbers:", "", "```text", *lines, "```", "")
    if rules:
        yield from ("And what must hold:", "", "```text")
        for rule, mend in rules.items():
            yield from textwrap.wrap(f"{rule} -- {mend}", WIDTH, subsequent_indent="    ")
        yield from ("```", "")


def source(page: Operator) -> Iterator[str]:
    """Files, and operators of torch."""
    kernels = ROOT / "src" / "mimw" / "kernels"
    said = " ".join(page.row.values()) + inspect.getdoc(page.function)
    named = [path.name for path in sorted(kernels.iterdir())
             if path.is_dir() and re.search(rf"`(mimw\.kernels\.)?{path.name}`", said)]
    file = Path(inspect.getsourcefile(inspect.unwrap(page.function))).relative_to(ROOT).as_posix()
    yield f"* The operator: [{file}]({page.up}../{file})"
    if named:
        links = (f"[`{name}`]({page.up}../src/mimw/kernels/{name}/__init__.py)" for name in named)
        yield f"* Kernels, in src/mimw/kernels: {', '.join(links)}"
    if page.operators:
        yield f"* Operators of torch: {', '.join(f'`torch.ops.mimw.{name}`' for name in page.operators)}"
    yield ""


def text(page: Operator, chips: Chips) -> str:
    run = ["", "`torchrun --nproc-per-node 2 example.py` runs it, without a GPU simulated at each rank."] * page.several
    return "\n".join([
        BEGIN.strip(), f"# {page.title}", "", page.first, "",
        "```python", page.example.rstrip(), "```", *run, "",
        "## Where it runs", "", *where(page, chips),
        "## Signature", "", f"```{{names}} {page.room.__name__}", page.name, "```", "",
        "## Errors", "", *refused(page),
        "## Speed", "", *operator_speed.lines(page.title, f"{page.up}performance.md"),
        "## Source", "", *source(page),
        f"[All operators]({page.up}OPERATORS.md)", ""])


def made(chips: Chips) -> dict[str, str]:
    """File under docs/ -> text."""
    return {page.file: reflow(text(page, chips)) for page in shown()}


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    if not arguments:
        operator_chips.keep(operator_chips.found())
    chips = operator_chips.kept()
    pages = made(chips)
    stale = write_or_check(TABLES, BEGIN, END, operator_table.text(chips), check)
    for name, said in pages.items():
        file = DOCS / name
        if check:
            stale |= not file.exists() or file.read_text() != said
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(said)
    return int(stale or {file.relative_to(DOCS).as_posix() for file in FOLDER.rglob("*.md")} != set(pages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
