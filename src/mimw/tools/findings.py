"""What `mimw.check` has to say: plain data, as text and as JSON.

    report = mimw.check(kernel, grid, *args)      report.ok, report.findings[0].kind, report.tried, print(report)

Input: nothing but what is put into the fields. Output: the texts that the command prints, and dictionaries for `--json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..compiler.analysis import Remark
from ..errors import Edit, excerpt
from ..ir.shown import Shown

VERSION = 1     # of the data that `as_json` gives: it grows when a reader of the older form would go wrong


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    kind      the class of `mimw.errors` that says what; `kinds` are it and the wider ones it belongs to
    message   the facts, then the mend
    sites     source positions (`file`, `line`, `function`), the accesses or waits concerned first
    seed      what to give `mimw.simulate(..., races=True, seed=...)` to see it: an int or a schedule; None if it was refused
              before any run
    grid      the smallest grid found that shows it
    sizes     arguments made smaller with it, by name
    ctas      the program ids of the CTAs that ran, if not all of the grid did
    edits     the change of the source that mends it, where one was looked for and found; `hint` says the same
    """

    kind: str
    message: str
    sites: tuple[Any, ...]
    hint: str = ""
    kinds: tuple[str, ...] = ()
    seed: int | tuple | None = None
    grid: tuple[int, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    ctas: tuple[tuple[int, ...], ...] = ()
    edits: tuple[Edit, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}", *([f"Mend: {self.hint}"] if self.hint else [])]
        lines += dict.fromkeys(excerpt(site) for site in self.sites)
        return "\n".join([*lines, *([self.shown_by] if self.shown_by else [])])

    @property
    def shown_by(self) -> str:
        """A sentence with the launch that shows it again; "" for what was refused before any run."""
        if self.seed is None:
            return ""
        sizes = "".join(f", {name}={value}" for name, value in self.sizes.items())
        shown = f"grid={self.grid}{sizes}, seed={self.seed}"
        told = " and `expected=`" if self.kind == "WrongResult" else ", races=True"
        return (f"Shown by {shown}{told}." if not self.ctas else
                f"Shown by mimw.check with {shown.replace('seed=', 'seeds=[')}], ctas={list(self.ctas)}.")

    def as_json(self) -> dict[str, Any]:
        """Plain data, for `mimw check --json`; docs/schemas/findings.schema.json describes it."""
        sites = [{"file": site.file, "line": site.line, "column": site.column, "function": site.function} for site in self.sites]
        first = {name: sites[0][name] if sites else None for name in ("file", "line", "column")}
        return {"kind": self.kind, "kinds": list(self.kinds), **first, "message": self.message, "hint": self.hint, "sites": sites,
                "seed": self.seed, "grid": list(self.grid), "sizes": self.sizes, "ctas": [list(index) for index in self.ctas],
                "edits": [edit.as_json() for edit in self.edits]}


@dataclass(frozen=True)
class Tried:
    """One smaller launch and what it showed: "ok", "found", or "not applicable" where the kernel is not made for these sizes, and
    then `why`. `rounds` says how often loops went round, by source position; `ctas` are the program ids of the CTAs that ran and
    stand for others, which do the same, if not all of the grid did."""

    what: str
    outcome: str
    rounds: dict[str, int]
    sizes: dict[str, int]
    grid: tuple[int, ...]
    why: str = ""
    ctas: tuple[tuple[int, ...], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, "outcome": self.outcome, "rounds": self.rounds, "sizes": self.sizes, "grid": list(self.grid),
                "why": self.why, "ctas": [list(index) for index in self.ctas]}


@dataclass(frozen=True)
class Report(Shown):
    """The result of a check: what was run and what was found. `runs` counts the runs of the launch as given, before shrinking;
    `complete` says that a systematic search went through all interleavings that can matter; `ops` counts the simulated
    operations of these runs. `tried` are the smaller launches that were run besides, and `untried` says why others, or all, were
    not. `remarks` are what the author should know although nothing is wrong, such as register requests that cannot be met; `ok`
    does not depend on them. `stopped` says what a time limit has left out, "" if nothing, and `unseen` what a part of the grid
    does not show; `ok` then is about what ran. `results` says whether results were compared with `expected=`, "" if something is
    wrong; `unwritten` are sentences on results of which no program wrote a part, which may be meant; `unawaited` are the arrays of
    barriers with arrivals that no wait needed, so that mistakes in them do not show. `declared` is what was taken as the truth
    about native code (`tle.raw`), which nobody has looked at. `mend` is the `Mend` of all findings, if one was looked for and
    found. `kernel` is its name. `replay(finding)` runs a finding, or with None seed 0, again for the timeline of the
    page."""

    findings: tuple[Finding, ...]
    runs: int
    complete: bool = False
    ops: int = 0
    tried: tuple[Tried, ...] = ()
    untried: str = ""
    remarks: tuple[Remark, ...] = ()
    stopped: str = ""
    unseen: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    results: str = ""
    unwritten: tuple[str, ...] = ()
    unawaited: tuple[str, ...] = ()
    mend: Any = field(default=None, compare=False)
    kernel: str = field(default="", compare=False)
    replay: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def verdict(self) -> str:
        """The result in a line."""
        how = f"{self.runs} run{'s' * (self.runs != 1)}" + (", all interleavings that can matter" if self.complete else "")
        found = f"nothing found in {how}, {self.ops} ops" if self.ok else f"{len(self.findings)} found in {how}"
        if self.ok or self.stopped:
            found = f"{'not complete' if self.stopped else 'ok'}: {found}"
        return found

    def __str__(self) -> str:
        besides = "".join(f"\n{line}" for line in self._besides())
        remarks = ["\n".join([f"Remark: {remark.text}", excerpt(remark.site)]) for remark in self.remarks]
        step = [f"A first step: {self.mend}"] if self.mend is not None and self.mend.left else []
        return "\n\n".join([*map(str, self.findings), *step, *remarks, self.verdict + besides])

    def _page(self):
        """Each finding has the timeline of its run; without any it is that of seed 0. What was refused before any run has none."""
        from ..report.page import Note, Page, Run

        notes = tuple(Note(one.kind, one.message, one.sites, one.hint, one.shown_by,
                           len(one.sites) if "Deadlock" in one.kinds else 2) for one in self.findings)
        texts = (("Remarks", "\n\n".join(f"{remark.site}: {remark.text}" for remark in self.remarks)),
                 ("Checked besides", "\n".join(self._besides())))
        page = Page(self.kernel or "mimw.check", verdict=self.verdict, ok=self.ok, notes=notes, texts=texts,
                    no_trace="The kernel was refused before any run, so there is no timeline.")
        if self.replay is None:
            return page
        first, *others = self.findings or (None, )
        done, launch = self.replay(first), self.replay.launch
        runs = tuple(Run(number, again.trace, again.at) for number, again in enumerate(map(self.replay, others), 2))
        grid = first.grid if first else launch.grid
        sizes = tuple(f"{name}={value}" for name, value in first.sizes.items()) if first else ()
        which = (f"grid {tuple(grid)}", *sizes, f"seed {first.seed if first else 0}") if not runs else ()  # the timeline says it
        memory = self.replay.memory()
        shared = {} if memory is None else {"rows": memory.rows, "shared": memory.total}
        return replace(page, facts=(self.replay.target.name, *which), program=launch.program, target=self.replay.target, **shared,
                       trace=done.trace, at=done.at, others=runs)

    def _besides(self) -> Iterator[str]:
        """Lines about what did not run, and about the smaller launches."""
        if self.stopped:
            yield f"not complete: {self.stopped}"
        if self.results:
            yield self.results
        yield from (f"note: {one}" for one in self.unwritten)
        if self.unawaited:
            yield (f"note: no wait needed an arrival of {', '.join(self.unawaited)}, so a mistake there does not show in this "
                   "launch; if it releases slots, check a launch that fills each of them twice")
        yield from self.unseen
        yield from (f"taken as declared: {one}" for one in self.declared)
        run = [one.what for one in self.tried if one.outcome != "not applicable"]
        if run:
            yield f"tried besides: {'; '.join(run)}"
        if any(one.ctas for one in self.tried):
            yield "there, of programs that do the same, the first and the last stand for all"
        for one in self.tried:
            if one.outcome == "not applicable":
                yield f"not made for {one.what}: {one.why}"
        if self.untried:
            yield f"{'no others' if run else 'no smaller launches'} tried: {self.untried}"

    def as_json(self) -> dict[str, Any]:
        """Plain data, for `mimw check --json`; docs/schemas/findings.schema.json describes it."""
        return {"version": VERSION, "kernel": self.kernel, "ok": self.ok, "runs": self.runs, "complete": self.complete,
                "ops": self.ops, "findings": [finding.as_json() for finding in self.findings],
                "tried": [one.as_json() for one in self.tried], "untried": self.untried, "stopped": self.stopped,
                "mend": self.mend.as_json() if self.mend is not None else None, "unseen": list(self.unseen),
                "declared": list(self.declared), "results": self.results, "unwritten": list(self.unwritten),
                "unawaited": list(self.unawaited),
                "remarks": [{"message": remark.message, "hint": remark.hint, "file": remark.site.file, "line": remark.site.line}
                            for remark in self.remarks]}
