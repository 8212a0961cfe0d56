"""docs/MUTATIONS.md out of the rows of benchmarks/mutations.py."""

from __future__ import annotations

from collections import Counter

HEAD = """# Mutation score of `mimw check`

Made by `python -m benchmarks.mutations --out docs/MUTATIONS.md`, with the rows in `benchmarks/results/mutations.jsonl`
({dates}; {minutes} minutes on one core of a shared machine). Each mutant changes one synchronising line of a kernel, in every
place where it was inlined: drop, duplicate, swap with its neighbour (which moves releases early and waits late), shift the phase,
change a count or bytes, drop a fence, take the next buffer or barrier, weaken an atomic, take a launcher's answer for a refusal.
*Wrong* ones are caught or missed, and the score is caught / wrong; *equivalent* ones are listed below with the argument. *Alarms*
are findings on the unchanged kernel, over so many runs. Missed ones that multiply by another tile, which is there as well, break
no rule of synchronisation: a test that compares with numpy finds them (`only_numbers_show` in tests/tutorials plants them).
Not judged yet: the mutants of ring attention's two large kernels, and of dispatch in whole rows (`NOT_JUDGED` in
benchmarks/mutation_kernels).

| Kernel | Mutants | Caught | Missed | Equivalent | Score | Alarms (runs) |
|---|---|---|---|---|---|---|
"""


def table(rows: list[dict], names: list[str]) -> str:
    """The page, kernels in the order of `names`."""
    heads = {row["kernel"]: row for row in rows if row["kind"] == "kernel"}
    outcomes = {name: [row for row in rows if row["kind"] == "mutant" and row["kernel"] == name] for name in heads}
    names = [name for name in names if name in heads]
    dates = sorted({heads[name]["date"] for name in names})
    minutes = round(sum(heads[name]["seconds"] for name in names) / 60)
    lines = [_row(name, heads[name], outcomes[name]) for name in names]
    every = [row for name in names for row in outcomes[name]]
    lines.append(_row("**All**", {"alarms": sum(heads[name]["alarms"] for name in names),
                                  "runs": sum(heads[name]["runs"] for name in names)}, every))
    return HEAD.format(dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "not run", minutes=minutes) + \
        "\n".join(lines) + "\n\n" + "\n".join(_section(name, heads[name], outcomes[name]) for name in names)


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
