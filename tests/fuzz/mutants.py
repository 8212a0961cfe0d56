"""Programs that lack a line they need: does mimw notice?

Input: a program with marks on its synchronising lines, and how often each channel is used. Output: mutants, each with the reason
why the line is needed, and the verdict of `mimw.check` (which counts what the compiler refuses). A mutant is made only where the
construction says that it is wrong; `ROLES` and `LEFT_ALONE` hold the rules:

    mutants(program, counts)[0]     # Mutant(41, "full wait", "drop", "pass", "the slot is read before it is filled")
"""

from __future__ import annotations

import collections
import random
import re
import time
import warnings
from dataclasses import dataclass

from . import rows
from .tree import Break, Mark, Program


@dataclass(frozen=True)
class Mutant:
    """Line `line` of the kernel (from 1) becomes `text`. A family's own mistake may be more: `source` is the whole kernel."""

    line: int
    role: str
    change: str
    text: str
    why: str
    source: str = ""


@dataclass(frozen=True)
class Rule:
    """A change of the lines of a role. `least`: it is wrong only if one CTA uses the channel so often; "slots" stands for
    more often than the ring has slots."""

    change: str
    least: int | str
    why: str
    pattern: str = ""
    by: str = ""


def _drop(least: int | str, why: str) -> Rule:
    return Rule("drop", least, why)


_FLIP_FULL = Rule(
    "flip",
    1,
    "the wait for the other parity passes on a fresh barrier, before the slot is filled",
    r", (.*)\)$",
    r", (\1) ^ 1)",
)
ROLES: dict[str, tuple[Rule, ...]] = {
    "full wait": (_drop(1, "the slot is read before it is filled"), _FLIP_FULL),
    "full arrive": (
        _drop(1, "the reader waits for ever"),
        Rule("twice", "slots", "a second arrival in a phase of one", r"\)$", ", 2)"),
    ),
    "free wait": (
        _drop("slots", "a slot is filled again before it was read"),
        Rule("flip", 1, "nobody has given back a slot of the first round", r"\) \^ 1\)$", "))"),
    ),
    "free arrive": (_drop("slots", "the sender waits for a slot for ever"),),
    "free count": (Rule("more", "slots", "an arrival too few comes", r"(\d+)\)$", r"\1 + 1)"),),
    "slot commit": (_drop(1, "the copy is in no group that is waited for"),),
    "slot group": (
        _drop(1, "the copy may land after the arrival"),
        Rule("weaken", 1, "the newest group may be unfinished", r"\(0\)", "(1)"),
    ),
    "slot expect": (
        _drop(1, "nobody arrives, and bytes come that none expects"),
        Rule("fewer bytes", 1, "more bytes come than were expected", r", (\d+)\)$", r", \1 // 2)"),
    ),
    "commit": (_drop(1, "the chunk is never published"),),
    "release": (_drop("slots", "the stage is never given back"),),
    "dot wait": (_drop(1, "the slots are given back, and the sum is read, while the tensor core works"),),
    "wait of a dot": (
        _drop(1, "the result is read while the tensor core works"),
        Rule("weaken", 1, "the newest group may be unfinished", r"\(0,", "(1,"),
    ),
    "wait of bytes": (
        _drop(1, "the buffer is read before the copy has landed"),
        Rule(
            "flip",
            1,
            "the wait for the other parity passes on a fresh barrier",
            r", ([^,]*?)(, pred=.*)?\)$",
            r", (\1) ^ 1\2)",
        ),
    ),
    "expect": (_drop(1, "nobody arrives, and bytes come that none expects"),),
    "corner of a store": (
        Rule(
            "in front",
            1,
            "TMA writes no block whose corner is negative",
            r", \[(.*?)(, 0)?\](, \w+='\w+')?\)$", r", [(\1) - 65536\2]\3)",
        ),
        Rule("odd column", 1, "TMA begins at multiples of 16 bytes only", r", 0\](, \w+='\w+')?\)$", r", 1]\1)"),
    ),
    "corner of a load": (
        Rule("odd column", 1, "TMA begins at multiples of 16 bytes only", r", 0\], (\w+\[0\].*)$", r", 1], \1"),
    ),
    "wait of a store": (_drop(1, "the CTA ends, or fills the buffer again, while the store reads it"),),
    "wait of a load": (_drop(1, "the buffer is read before the copies have landed"),),
    "product wait": (_drop(1, "the accumulator is read while the tensor core works"), _FLIP_FULL),
    "product commit": (_drop(1, "nobody arrives when the products are done"),),
    "free commit": (_drop("slots", "the sender waits for a slot for ever"),),
    "even's full arrive": (_drop(1, "the even CTA waits for ever"),),
    "even's free arrive": (_drop("slots", "the even CTA waits for a slot for ever"),),
    "even's full wait": (_drop(1, "what the even CTA multiplies is not there"),),
    "even's free wait": (_drop("slots", "the even CTA multiplies into sums that nobody has read"),),
    "claim": (_drop(1, "nobody asks, and who waits for the answer waits for ever"),),
    "own arrive": (_drop(1, "the task waits for an arrival that nobody makes"),),
    "named": (_drop(1, "somebody waits for threads that do not come"),),
    "named free wait": (_drop(2, "the slot is filled again before it was read"),),
    "peer wait": (_drop(1, "the buffer is read before the peer has written it"),),
    "peer expect": (_drop(1, "nobody arrives"),),
    "peer free wait": (_drop(2, "the peer's buffer is written again before it was read"),),
    "peer free arrive": (_drop(2, "the peer waits for the buffer for ever"),),
    "peer arrive": (_drop(1, "the peer waits for ever"),),
    "meeting": (_drop(1, "nothing orders the write and the peer's read"),),
    "second meeting": (_drop(2, "the buffer is written again before it was read"),),
    "grid meeting": (_drop(1, "nothing orders the store and the other program's load"),),
}
# Marked lines that no mutant touches, and why the construction cannot say that they are needed.
LEFT_ALONE = {
    "wait of a move": "where it is missing a later wait of the same task, for whatever copy, waits for the store as well",
    "slot fence": "where it is missing the compiler puts one in (passes/fence_deliveries.py)",
    "fence of a store": "where it is missing the compiler puts one in",
    "peer fence": "where it is missing the compiler puts one in",
    "acquire": "it gives the slot: without it the program has no name for what it writes",
    "pipe wait": "it gives the slot",
    "operand wait": "the wait for another operand, which the sender sent later, stands before the dot, too",
    "even's claimed free wait": "as the claimed free wait",
    "claimed free wait": "an answer that all tasks have read tells the sender that they were done with the item before",
    "covered product wait": "the product's other barrier says it, too, or a later product of the task, or there is no product",
    "close": "it says that nothing more comes, in an output",
    "covered fence": "the fence after another operand, which stands before its arrival, is for this one, too",
    "named close": "it takes back what nobody needs any more, so that the barrier ends as it began",
    "free wait, if there is another way": "what a reader sends, or gives back of another ring, tells the sender the same",
    "named free wait, if there is another channel": "as the free wait",
    "peer free wait, if there is another exchange": "the next exchange may tell the sender that its tile was read",
    "wait of a store, if there is another": "a later wait, or one inside desc.store or tle.gpu.copy, finishes this store, too",
    "weaker wait of a dot, if there is another": "the wait of another dot may finish this one before its result is used",
    "second meeting, if there is another": "the next exchange's meeting may stand between the read and the next write",
    "grid meeting of one's own tile": "a program that reads its own tile needs no other",
}

# Of TMA, for which AMD's chips have copies by pointers, which begin anywhere and are over where they stand.
OF_TMA = {"corner of a load", "corner of a store", "wait of a store"}


def _returning(program: Program) -> set[str]:
    """Channels whose readers tell the channel's sender something in another way than by giving back its slots."""
    sends: dict[str, str] = {}
    receives: dict[str, set[str]] = {}
    task = ""
    for line in program.kernel.split("\n"):
        if match := re.match(r"\s+with tlx.async_task\((.*)\):|def (part\w+)", line):
            task = f"{match[1] or match[2]}{line}{len(sends)}{len(receives)}"
        if match := re.search(r"barrier_wait\((c\d+)_free\[", line):
            sends[match[1]] = task
        if match := re.search(r"barrier_wait\((c\d+)_full\[", line):
            receives.setdefault(match[1], set()).add(task)
        if (match := re.search(r"named_barrier_arrive\((\d+)", line)) or (
            match := re.search(r"named_barrier_wait\((\d+)", line)
        ):
            receives.setdefault(f"named{match[1]}", set()).add(task)
    edges: dict[str, list[tuple[str, str]]] = {}  # channel -> the ways that it leads from task to task
    for name, sender in sends.items():
        for reader in receives.get(name, set()):
            edges.setdefault(f"{name} full", []).append((sender, reader))
            edges.setdefault(f"{name} free", []).append((reader, sender))
    for name, members in receives.items():
        if name.startswith("named"):
            edges[name] = [(one, other) for one in members for other in members]

    def leads(start: set[str], end: str, without: str) -> bool:
        found, new = set(start), set(start)
        while new:
            steps = [step for name, ways in edges.items() if name != without for step in ways]
            new = {there for here, there in steps if here in new} - found
            if end in new:
                return True
            found |= new
        return False

    return {name for name, sender in sends.items() if leads(receives.get(name, set()), sender, f"{name} free")}


def mutants(program: Program, counts: dict[str, int]) -> list[Mutant]:
    """All mutants that are wrong for certain."""
    lines = program.kernel.split("\n")
    roles = collections.Counter(mark.role for _, mark in program.marks)
    returning = _returning(program)
    found = []
    for number, mark in program.marks:
        facts, used = dict(mark.facts), counts.get(mark.channel, 0)
        if program.chip.startswith("gfx") and mark.role in OF_TMA or _left_alone(mark, facts, roles, program.kernel):
            continue
        for rule in ROLES.get(mark.role, ()):
            if program.chip.startswith("gfx") and (mark.role, rule.change) == ("wait of bytes", "drop"):
                continue  # the task has waited for its own copy
            if mark.role == "wait of a dot" and rule.change == "weaken" and roles[mark.role] > 1:
                continue
            least = facts.get("slots", 1) + 1 if rule.least == "slots" else rule.least
            if used < least or mark.role == "free wait" and rule.change == "drop" and mark.channel in returning:
                continue
            old = lines[number - 1]
            pad = old[: len(old) - len(old.lstrip())]
            text = pad + "pass" if rule.change == "drop" else re.sub(rule.pattern, rule.by, old, count=1)
            if text != old:
                found.append(Mutant(number, mark.role, rule.change, text, rule.why))
    return found + [planted(program, one) for one in program.breaks]


def planted(program: Program, one: Break) -> Mutant:
    """A family's own mistake, as a mutant."""
    if program.kernel.count(one.old) != 1:
        raise AssertionError(f"{one.old!r} stands {program.kernel.count(one.old)} times in {program.family} {program.seed}")
    number = program.kernel[: program.kernel.index(one.old)].count("\n") + 1
    source = program.kernel.replace(one.old, one.new)
    return Mutant(number, program.family, one.why, source.split("\n")[number - 1], one.why, source)


def _left_alone(mark: Mark, facts: dict[str, int], roles, kernel: str) -> bool:
    if mark.role == "wait of a store":
        return roles[mark.role] > 1 or re.search(r"\b[dt]\d+\.(store|atomic_)|tle\.gpu\.copy", kernel) is not None
    if mark.role == "second meeting":
        meetings = len(re.findall(r"distributed_barrier\(|cluster_barrier\(|tle\.reshard|distributed_dot", kernel))
        return not facts.get("loops") or roles["second meeting"] + roles["meeting"] > 2 or meetings > 2
    if mark.role == "named free wait":
        return roles["free wait"] + roles["named free wait"] > 1
    if mark.role == "peer free wait":
        return roles["peer wait"] > 1 or "tlx.cluster_barrier()" in kernel
    if mark.role == "grid meeting":
        return not facts.get("step") or roles["grid meeting"] > 1
    return False


def mutated(program: Program, mutant: Mutant) -> str:
    """The kernel's source with the change."""
    if mutant.source:
        return mutant.source
    lines = program.kernel.split("\n")
    lines[mutant.line - 1] = mutant.text
    return "\n".join(lines)


def verdict(program: Program, source: str, folder, seeds: int = 4) -> tuple[str, str]:
    """("found", class), ("refused", class), ("missed", "") or ("internal", detail)."""
    from .launch import checked, guarded, load

    outcome = guarded("check", lambda: checked(program, load(program, folder, source), seeds))
    kind, _, rest = outcome.kind.partition(" ")
    return {"alarm": ("found", rest), "refused": ("refused", rest), "ok": ("missed", "")}.get(
        kind, ("internal", outcome.kind + outcome.detail)
    )


def judged(seed: int, most: int, family: str | None, folder: str) -> dict:
    """Up to `most` mutants of a seed's program, chosen by the seed, with their verdicts."""
    from .families import program_of
    from .launch import reference

    began = time.time()
    program, _ = program_of(seed, family)
    _, counts = reference(program)
    possible = mutants(program, counts)
    chosen = random.Random(seed).sample(possible, min(most, len(possible)))
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in chosen:
            what, detail = verdict(program, mutated(program, one), folder)
            old = program.kernel.split("\n")[one.line - 1].strip()
            results.append(
                {
                    "role": one.role,
                    "change": one.change,
                    "line": one.line,
                    "old": old,
                    "why": one.why,
                    "verdict": what,
                    "by": detail[:300],
                }
            )
    return {"seed": seed, "family": program.family, "mutants": results, "seconds": time.time() - began}


def main(options) -> int:
    """The command with --mutants: one line for each that is missed, a table of the roles."""
    from .workers import Died, cores, run_all

    began, table, by, missed = time.time(), collections.Counter(), collections.Counter(), []
    programs: collections.Counter = collections.Counter()
    jobs = ((seed, 3) for seed in range(options.first, options.first + options.count))
    for (seed, _), result in run_all(
        jobs,
        "tests.fuzz.worker:run_mutant",
        options.jobs or cores(),
        options.limit,
        began + options.seconds,
        {"family": options.family},
    ):
        if isinstance(result, Died):
            print(f"FAIL {seed} {result.kind} {result.detail}", flush=True)
            missed.append(seed)
            continue
        programs[result["family"]] += 1
        for one in result["mutants"]:
            table[one["role"], one["change"], one["verdict"]] += 1
            if one["verdict"] in ("found", "refused"):
                by[one["by"]] += 1
            else:
                missed.append(seed)
                print(
                    f"FAIL {seed} {result['family']} {one['verdict']}: {one['role']} {one['change']}, "
                    f"line {one['line']}: {one['old']}\n"
                    f"    needed, since {one['why']}\n    {one['by']}",
                    flush=True,
                )
    for role, change in sorted({(role, change) for role, change, _ in table}):
        parts = [
            f"{what} {table[role, change, what]}"
            for what in ("found", "refused", "missed", "internal")
            if table[role, change, what]
        ]
        print(f"{role:20} {change:12} {', '.join(parts)}")
    took = time.time() - began
    total = sum(table.values())
    print(f"{total} mutants of {sum(programs.values())} programs, {len(missed)} not noticed, {took:.0f} s")
    print("by " + ", ".join(f"{name} {count}" for name, count in by.most_common()))
    if options.jsonl:
        found: collections.Counter = collections.Counter()
        for (role, change, what), count in table.items():
            found["", f"{role}: {change}", what] += count
        rows.append(
            options.jsonl, rows.of_run("fuzz mutants", options, ["check"], programs, found, took) | {"mutants": total}
        )
    return 1 if missed else 0
