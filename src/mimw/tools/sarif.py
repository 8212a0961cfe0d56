"""Reports of `mimw.check` as SARIF 2.1.0, which code review and editors show at their lines.

Input: reports, and the folder that paths are relative to. Output: one log as plain data. For example:

    log = sarif([mimw.check(kernel, grid, *args)], folder="/home/me/kernels")
    log["runs"][0]["results"][0]["ruleId"]          "SlotReusedEarly"
    Path("mimw.sarif").write_text(json.dumps(log))

A rule is a class of findings. A result has the first line of a finding as its location, the others as related ones, the edits of a
mend as its fix, and a fingerprint that stays the same when lines above it come and go. The sections named in comments are those of
the standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import errors
from ..errors import Edit
from .findings import Finding, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"        # the base of relative paths, as code hosts know it
FINGERPRINT = "mimwFinding/v1"
CALLS = 8               # lines of callers of a finding's first line


def sarif(reports: Iterable[Report], folder: str | os.PathLike[str] | None = None, name: str = "") -> dict[str, Any]:
    """One SARIF log with one run.

    args:      reports   of `mimw.check`; a finding that several have is one result
               folder    what the paths of files below it are relative to, by default the working folder: the top of the repository,
                         for a code host. Other files have whole paths
               name      tells this check from others of the same commit, which a code host would take for its older state
    returns:   plain data for `json.dump`
    """
    reports = list(reports)
    folder = Path(folder or os.getcwd()).resolve()
    found = [(report, finding) for report in reports for finding in report.findings]
    rules = list(dict.fromkeys(finding.kind for _, finding in found))
    package = sys.modules[__name__.partition(".")[0]]
    run = {
        "tool": {"driver": {"name": "mimw", "semanticVersion": package.__version__, "rules": [rule(kind) for kind in rules]}},
        "automationDetails": {"id": "/".join(["mimw check", *([name] if name else []), ""])},       # 3.17.3: a category ends in /
        "originalUriBaseIds": {ROOT: {"uri": f"{folder.as_uri()}/"}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [
            {"level": level, "message": {"text": text}} for report in reports for level, text in _left_out(report)]}],
        "results": _results(found, rules, folder),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def rule(kind: str) -> dict[str, Any]:
    """The rule (3.49) of a class of findings: what it means, and the page with its rules."""
    text = inspect.cleandoc(getattr(getattr(errors, kind, None), "__doc__", None) or kind)
    whole = " ".join(text.split())
    first = re.match(r".*?(?=[.:](?: |$)|$)", whole)
    page = _page(kind)
    told = {"id": kind, "name": kind, "shortDescription": {"text": f"{first[0]}."}, "fullDescription": {"text": whole},
            "defaultConfiguration": {"level": "error"},
            "help": {"text": f"{whole} See docs/{page}; `mimw check --replay SEED` shows the run again."},
            "properties": {"tags": ["correctness", "concurrency"] if page == "MEMORY_MODEL.md" else ["correctness"]}}
    site = _pages()
    return {**told, "helpUri": f"{site}/{page}"} if site else told


def _page(kind: str) -> str:
    """The page of docs/ with the rules that findings of a class break."""
    found = getattr(errors, kind, None)
    of_memory = isinstance(found, type) and issubclass(found, (errors.DataRace, errors.BarrierMisuse, errors.Deadlock,
                                                               errors.UnwrittenRead, errors.PeerExited))
    return "MEMORY_MODEL.md" if of_memory else "CHECKING.md"


def _pages() -> str:
    """The address of docs/, which the installed package knows if it was built with one; "" otherwise."""
    try:
        addresses = metadata("mimw").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    return next((address.partition(", ")[2].rstrip("/") for address in addresses if address.startswith("Documentation, ")), "")


def _left_out(report: Report) -> Iterator[tuple[str, str]]:
    """Levels and sentences on the part of a launch that a report is not about."""
    where = f"{report.kernel}: " if report.kernel else ""
    if report.stopped:
        yield "warning", f"{where}not complete: {report.stopped}"
    yield from (("note", f"{where}{text}") for text in report.unseen)


def _results(found: list[tuple[Report, Finding]], rules: list[str], folder: Path) -> list[dict[str, Any]]:
    results, seen, told = [], Counter(), set()
    for report, finding in found:
        fingerprint, what = _fingerprint(finding, folder), (finding.kind, finding.message, finding.sites)
        if what in told:
            continue
        told.add(what)
        seen[fingerprint] += 1      # equal lines of one function: the first, the second, ...
        results.append(_result(report, finding, rules.index(finding.kind), f"{fingerprint}:{seen[fingerprint]}", folder))
    return results


def _result(report: Report, finding: Finding, index: int, fingerprint: str, folder: Path) -> dict[str, Any]:
    parts = [finding.message, f"Mend: {finding.hint}" if finding.hint else "", finding.shown_by]
    text = _nearer("\n".join(filter(None, parts)), folder)
    sites = [site for site in finding.sites if site.line]
    result = {"ruleId": finding.kind, "ruleIndex": index, "level": "error", "message": {"text": text},
              "locations": [_location(site, folder) for site in sites[:1]],
              "partialFingerprints": {FINGERPRINT: fingerprint},
              "properties": {"kernel": report.kernel, "kinds": list(finding.kinds), "seed": finding.seed,
                             "grid": list(finding.grid), "sizes": finding.sizes}}
    related = [(site, "also concerned") for site in sites[1:]] + [(site, "called from here") for site in _callers(sites)]
    if related:
        result["relatedLocations"] = [{"id": number, **_location(site, folder), "message": {"text": why}}
                                      for number, (site, why) in enumerate(related, 1)]
    if finding.edits:
        result["fixes"] = [_fix(finding.edits, _nearer(finding.hint, folder), folder)]
    return result


def _nearer(text: str, folder: Path) -> str:
    """A text with the paths of files below the folder relative to it."""
    return text.replace(f"{folder}{os.sep}", "")


def _callers(sites: list) -> list:
    """The calls that led to the first line, the nearest first."""
    return [site for site in sites[0].chain()[1:] if site.line][:CALLS] if sites else []


def _location(site: Any, folder: Path) -> dict[str, Any]:
    """A location (3.28); SARIF's columns count from 1, ours from 0."""
    region = {"startLine": site.line, "startColumn": site.column + 1}
    line = linecache.getline(site.file, site.line).rstrip("\n")
    if line:
        region["snippet"] = {"text": line}
    found: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(site.file, folder), "region": region}}
    if site.function:
        found["logicalLocations"] = [{"name": site.function, "kind": "function"}]
    return found


def _artifact(file: str, folder: Path) -> dict[str, str]:
    """A file (3.4): relative to the folder where it lies below that."""
    path = Path(file)
    if not path.is_absolute():      # a text that Python runs and that is no file, as `<stdin>`
        return {"uri": quote(file)}
    path = path.resolve()
    if path.is_relative_to(folder):
        return {"uri": quote(path.relative_to(folder).as_posix()), "uriBaseId": ROOT}
    return {"uri": path.as_uri()}


def _fingerprint(finding: Finding, folder: Path) -> str:
    """Of the class, and of the texts of the two lines that meet, whichever came first: not of their numbers."""
    lines = sorted(f"{_artifact(site.file, folder)['uri']} {site.function} {linecache.getline(site.file, site.line).strip()}"
                   for site in finding.sites[:2])
    return hashlib.sha256("\n".join([finding.kind, *(lines or [finding.message])]).encode()).hexdigest()[:32]


def _fix(edits: tuple[Edit, ...], hint: str, folder: Path) -> dict[str, Any]:
    """A fix (3.55): all edits, a change of each file."""
    files: dict[str, list[Edit]] = {}
    for edit in edits:
        files.setdefault(edit.file, []).append(edit)
    return {"description": {"text": hint}, "artifactChanges": [
        {"artifactLocation": _artifact(file, folder), "replacements": [_replacement(edit) for edit in some]}
        for file, some in files.items()]}


def _replacement(edit: Edit) -> dict[str, Any]:
    """A replacement (3.57): edits are of whole lines, and a region (3.30) ends before its last column."""
    lines = linecache.getlines(edit.file)
    if edit.action == "insert":
        if edit.line > len(lines):      # behind the last line
            return _replaced(len(lines), len(lines[-1].rstrip("\n")) + 1, len(lines), f"\n{edit.text}", lines)
        return _replaced(edit.line, 1, edit.line, f"{edit.text}\n", lines, 1)
    if edit.action == "delete" and edit.last < len(lines):
        return _replaced(edit.line, 1, edit.last + 1, "", lines, 1)
    return _replaced(edit.line, 1, edit.last, edit.text, lines)


def _replaced(line: int, column: int, last: int, text: str, lines: list[str], end: int | None = None) -> dict[str, Any]:
    end = len(lines[last - 1].rstrip("\n")) + 1 if end is None else end
    return {"deletedRegion": {"startLine": line, "startColumn": column, "endLine": last, "endColumn": end},
            "insertedContent": {"text": text}}
