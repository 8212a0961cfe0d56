"""The rows of `benchmarks.read_back` as a page, docs/READ_BACK.md.

Input: rows, one a kernel. Output: Markdown. For example:

    page(rows)          what is compared and how, then `table(rows)`: a line a kernel, and how many agree
"""

from __future__ import annotations

_ABOUT = """# Recorded and compiled

What `mimw.simulate` and `mimw check` run is the program that was recorded. What a GPU runs has been through mimw's
lowering and all of Triton's passes. Here both are run: each kernel of the library and of the tutorials is compiled up
to the TTGIR behind all passes, read back ([TTGIR.md](TTGIR.md)), and simulated on the same arguments as the recorded
program.

```sh
python -m benchmarks.read_back                        # all kernels: some minutes on two cores, no GPU
python -m benchmarks.read_back --kernels "Tutorial 0"       # those whose name holds the text
```

* **Arrays**: what the two write is the same byte for byte.
* **Order**: each task of each CTA does its effects with a fixed place (copies, barriers, fences, products that run on,
  writes to memory of the kernel's own; `analysis/order.py`) in the same order. An op of the compiled kernel is known by
  the number of the recorded op in its location. Effects are compared as they ran, so that an unrolled loop is no other
  order. Of an op that became several in a row one counts. A kernel that draws its work by launch control is compared in
  its first cluster alone: who gets which tile depends on time.
* **Findings**: a check with races finds the same classes of mistakes at the same lines on so many seeds. Of these
  kernels, which are right, that is nothing; `tests/ttgir/test_read_back.py` plants mistakes, and takes a wait out of a
  compiled text.
* **Dropped** are recorded ops that no op of the compiled kernel names, such as a commit that became part of its
  product; **doubled** are those that several name, as in an unrolled loop.

Fences between proxies that Triton adds in its stage for LLVM are put in first (`triton_port/late_fences.py`). The
numbers of wgmma's matrix descriptors in mimw's assembly are not looked at, nor is anything behind that stage: LLVM and
ptxas are compared on a GPU. On AMD's chips the stages in which two halves of the waves take turns are regions in TTGIR,
which no number names: they are read, and counted as dropped.

What this has found: the reader took a swizzled tile that is wider than its swizzle, and seen as an array of its
stripes, in row-major order (tutorial 04; mended); and TTGIR by itself lacks the fence in a loop between cp.async and
wgmma that Triton adds later, which was an alarm (tutorial 01; mended by reading it).

"""


def disagrees(row: dict) -> bool:
    return "failed" in row or any(not row.get(what, "same").startswith("same") for what in ("arrays", "order", "findings"))


def table(rows: list[dict]) -> str:
    """The rows as a table of Markdown, and a line of sums."""
    lines = ["| Kernel | Chip | Ops recorded / read | Arrays | Order | Findings | Dropped, doubled |",
             "|---|---|---|---|---|---|---|"]
    for row in rows:
        if said := row.get("refused") or row.get("failed"):
            lines.append(f"| {row['kernel']} | {row['chip']} | {_cell(said)} | | | | |")
            continue
        changed = [f"{what}: " + ", ".join(f"{name} {count}" for name, count in row.get(what, {}).items())
                   for what in ("dropped", "doubled") if row.get(what)]
        order = row.get("order", "of Triton's own path") + (f", {row['effects']} effects" if row.get("order") == "same" else "")
        lines.append(f"| {row['kernel']} | {row['chip']} | {row['recorded']} / {row['read']} | {row['arrays']} | {_cell(order)} | "
                     f"{_cell(row['findings'])} | {'; '.join(changed)} |")
    refused, wrong = sum("refused" in row for row in rows), sum(map(disagrees, rows))
    said = f"{len(rows)} kernels: {len(rows) - refused - wrong} agree, {wrong} disagree, {refused} are refused."
    return "\n".join([*lines, "", said])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())[:240]


def page(rows: list[dict]) -> str:
    """The whole page."""
    return _ABOUT + table(rows) + "\n"
