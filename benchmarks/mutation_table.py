"""Scores and lists out of the rows of benchmarks/mutations.py: docs/MUTATIONS.md, and what became of each mutant.

    table(rows, names)          the page: | GEMM, cooperative | 45 | 39 | 0 | 6 | 100.0% | 0 (201) |
    listing(rows, names)        for each kernel the classes that caught, and every mutant that was not caught with the reason
"""

from __future__ import annotations

from collections import Counter

from docs.support.reflow import reflow

HEAD = """# Mutation score of `mimw check`

How many wrong kernels does `mimw check` notice? Each mutant changes one synchronising line of a kernel, in every place
where it was inlined: drop, duplicate, swap with its neighbour (which moves releases early and waits late), shift the
phase, change a count or bytes, drop a fence, take the next buffer or barrier, weaken an atomic, take a launcher's
answer for a refusal.

* *Wrong* mutants are caught or missed; the score is caught / wrong. A mutant is caught if the compiler refuses it, or if
  8 seeds and the systematic search find something. One that is not caught runs on 30 interleavings: it is missed if one
  of these ends in an error or another result, else *equivalent*.
* *Alarms* are findings on the unchanged kernel, over so many runs.
* Missed mutants that multiply by another tile, which is there as well, break no rule of synchronisation: a test that
  compares with numpy finds them (`only_numbers_show` in tests/tutorials plants them).

Made by `python -m benchmarks.mutations --out docs/MUTATIONS.md` ({dates}; {minutes} minutes on one core of a shared
machine), from the rows in `benchmarks/results/mutations.jsonl`. The same rows hold what became of each mutant:

```sh
python -m benchmarks.mutations --list                            # what caught, and each one missed or equivalent, with the reason
python -m benchmarks.mutations --list --kernels "tutorial 10"    # of one kernel
```

The figures are as measured on those days. Since 2026-11-28 the compiler puts in by itself a fence between proxies that
an author left out (`passes/fence_deliveries.py`). To drop such a fence makes no wrong kernel any more: judged anew, these
mutants would count as equivalent, and those caught as `MissingFence` would be fewer.

Not judged yet: the mutants of ring attention's two large kernels, and of dispatch in whole rows (`NOT_JUDGED` in
benchmarks/mutation_kernels).

| Kernel | Mutants | Caught | Missed | Equivalent | Score | Alarms (runs) |
|---|---|---|---|---|---|---|
"""


def table(rows: list[dict], names: list[str]) -> str:
    """The page, kernels in the order of `names`."""
    heads, outcomes = _by_kernel(rows)
    names = [name for name in names if name in heads]
    dates = sorted({heads[name]["date"] for name in names})
    minutes = round(sum(heads[name]["seconds"] for name in names) / 60)
    lines = [_row(name, heads[name], outcomes[name]) for name in names]
    every = [row for name in names for row in outcomes[name]]
    lines.append(_row("**All**", {"alarms": sum(heads[name]["alarms"] for name in names),
                                  "runs": sum(heads[name]["runs"] for name in names)}, every))
    return reflow(HEAD.format(dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "not run", minutes=minutes) + \
        "\n".join(lines) + "\n")


def listing(rows: list[dict], names: list[str]) -> str:
    """What became of each mutant, kernels in the order of `names`."""
    heads, outcomes = _by_kernel(rows)
    return "\n".join(_section(name, heads[name], outcomes[name]) for name in names if name in heads)


def _by_kernel(rows: list[dict]) -> tuple[dict, dict]:
    """The sums of each kernel, and the rows of its mutants."""
    heads = {row["kernel"]: row for row in rows if row["kind"] == "kernel"}
    return heads, {name: [row for row in rows if row["kind"] == "mutant" and row["kernel"] == name] for name in heads}


def score(outcomes: list[dict]) -> float:
    count = Counter(row["verdict"] for row in outcomes)
    return count["caught"] / max(1, count["caught"] + count["missed"])


def _row(name: str, head: dict, outcomes: list[dict]) -> str:
    count = Counter(row["verdict"] for row in outcomes)
    caught = f"{score(outcomes):.1%}" if count["caught"] + count["missed"] else "none wrong"
    return (f"| {name} | {len(outcomes)} | {count['caught']} | {count['missed']} | {count['equivalent']} | {caught} | "
            f"{head['alarms']} ({head['runs']}) |")


def _section(name: str, head: dict, outcomes: list[dict]) -> str:
    """The classes that caught, then the mutants that were not caught."""
    lines = [f"## {name} (`{head['file']}`)\n", *([head["note"].capitalize() + ".\n"] if "note" in head else []),
             "| Class | Mutants |", "|---|---|"]
    caught = Counter(row["by"] for row in outcomes if row["verdict"] == "caught")
    lines += [f"| {kind} | {number} |" for kind, number in caught.most_common()]
    lines += ["", "| Not caught | Line | Change | Verdict | Reason |", "|---|---|---|---|---|"]
    lines += [f"| {row['word']} | {_place(row)} | {row['change']} | {row['verdict']} | {row['by']} |"
              for row in outcomes if row["verdict"] != "caught"]
    return "\n".join(lines) + "\n"


def _place(row: dict) -> str:
    return " from ".join(map(str, (row["line"], *row["called_from"])))
