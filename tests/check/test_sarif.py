"""`mimw check --sarif`: findings for code review, and what code hosts read of them."""

import json
import linecache
from pathlib import Path

import pytest

import mimw
from mimw import errors
from mimw.cli import main
from mimw.errors import Edit
from mimw.ir.site import Site
from mimw.tools.findings import Finding, Report
from mimw.tools.mends import edited
from mimw.tools.sarif import FINGERPRINT, ROOT, sarif
from tests.kernels import handed_over

FILE = Path(handed_over.__file__)


@pytest.fixture(scope="module")
def racy():
    kernel, grid, args, meta = handed_over.case_unordered()
    return mimw.check(kernel, grid, *args, seeds=1, **meta)


def run_of(*reports, **keywords):
    (run, ) = json.loads(json.dumps(sarif(reports, **keywords)))["runs"]
    return run


def report_of(*findings, **fields):
    return Report(findings, 1, kernel="kernel", **fields)


def results_of(*findings, folder="/a"):
    return run_of(report_of(*findings), folder=folder)["results"]


def finding_at(*sites, kind="DataRace", message="nothing orders them", **fields):
    return Finding(kind, message, sites, kinds=(kind, ), **fields)


def test_a_finding_is_a_result_at_its_line(racy):
    run = run_of(racy, folder=FILE.parent)
    result, finding = run["results"][0], racy.findings[0]
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": FILE.name, "uriBaseId": ROOT}
    assert run["originalUriBaseIds"][ROOT]["uri"] == f"{FILE.parent.as_uri()}/"
    line = FILE.read_text().splitlines()[where["region"]["startLine"] - 1]
    assert where["region"]["snippet"]["text"] == line and "tile[0]" in line
    assert line[where["region"]["startColumn"] - 1:].startswith("tl")        # columns count from 1
    assert result["locations"][0]["logicalLocations"][0]["name"] == "handed_over"
    others = [one["physicalLocation"]["region"]["startLine"] for one in result["relatedLocations"]]
    assert others == [site.line for site in finding.sites[1:]] and [one["id"] for one in result["relatedLocations"]] == [
        *range(1, len(others) + 1)]
    told = result["message"]["text"]
    assert told.startswith(finding.message.replace(f"{FILE.parent}/", "")) and "Mend: " in told and f" {FILE.name}:" in told
    assert result["properties"]["seed"] == finding.seed and result["level"] == "error"


def test_a_class_of_findings_is_a_rule(racy):
    run = run_of(racy, report_of(finding_at(Site("/a/b.py", 3)), finding_at(Site("/a/b.py", 4), kind="WrongResult")))
    rules = run["tool"]["driver"]["rules"]
    assert [one["ruleId"] for one in run["results"]] == [rules[one["ruleIndex"]]["id"] for one in run["results"]]
    assert len({rule["id"] for rule in rules}) == len(rules)
    told = {rule["id"]: rule for rule in rules}
    assert told["DataRace"]["shortDescription"]["text"] == (
        "Two accesses to one place, one of them a write, that no barrier, wait or fence orders.")
    assert "docs/MEMORY_MODEL.md" in told["DataRace"]["help"]["text"] and "docs/CHECKING.md" in told["WrongResult"]["help"]["text"]


def test_every_class_has_a_text():
    """One that a finding may be of: a sentence of the class's own."""
    from mimw.tools.sarif import rule
    kinds = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(
        value, (errors.SimulationError, errors.KernelError))]
    told = {kind: rule(kind)["shortDescription"]["text"] for kind in kinds}
    assert len(told) > 50 and all(text.endswith(".") and len(text.split()) > 3 for text in told.values()), told
    assert rule("OfAnotherPackage")["fullDescription"]["text"] == "OfAnotherPackage"


@pytest.mark.parametrize("addresses, page", [
    (["Homepage, https://host", "Documentation, https://host/docs"], "https://host/docs/MEMORY_MODEL.md"), ([], None)])
def test_a_rule_links_to_its_page_where_the_package_knows_the_address(addresses, page, monkeypatch):
    from mimw.tools import sarif as module

    class Metadata:
        def get_all(self, name):
            return addresses

    monkeypatch.setattr(module, "metadata", lambda name: Metadata())
    assert module.rule("DataRace").get("helpUri") == page


def test_a_file_elsewhere_has_its_whole_path():
    (inside, outside, none) = results_of(finding_at(Site("/a/ünder this.py", 3)), finding_at(Site("/b/other.py", 3)),
                                         finding_at(message="of the whole kernel"))
    paths = [one["locations"][0]["physicalLocation"]["artifactLocation"] for one in (inside, outside)]
    assert paths == [{"uri": "%C3%BCnder%20this.py", "uriBaseId": ROOT}, {"uri": "file:///b/other.py"}]
    assert none["locations"] == [] and "relatedLocations" not in none


def test_the_calls_that_led_to_a_line_are_related():
    caller = Site("/a/b.py", 30, 4, "kernel", Site("/a/b.py", 40, 0, "outer"))
    (result, ) = results_of(finding_at(Site("/a/b.py", 3, 8, "helper", caller), Site("/a/b.py", 5)))
    told = [(one["physicalLocation"]["region"]["startLine"], one["message"]["text"]) for one in result["relatedLocations"]]
    assert told == [(5, "also concerned"), (30, "called from here"), (40, "called from here")]


def test_a_fingerprint_is_of_the_lines_and_not_of_their_numbers(tmp_path):
    def fingerprints(text, *lines):
        file = tmp_path / "kernel.py"
        file.write_text(text)
        linecache.checkcache(str(file))
        sites = [Site(str(file), line, 0, "kernel") for line in lines]
        found = results_of(*(finding_at(*pair) for pair in (sites[:2], sites[2:]) if pair), folder=tmp_path)
        return [one["partialFingerprints"][FINGERPRINT] for one in found]

    first, = fingerprints("a = 1\nb = 2\n", 1, 2)
    assert fingerprints("# new\n\na = 1\n  b = 2\n", 3, 4) == [first] == fingerprints("a = 1\nb = 2\n", 2, 1)
    assert fingerprints("a = 1\nb = 3\n", 1, 2) != [first]
    twice = fingerprints("a = 1\nb = 2\na = 1\nb = 2\n", 1, 2, 3, 4)       # equal lines further down are another finding
    assert twice[0] == first and twice[1] == first.replace(":1", ":2")


def test_what_two_reports_have_found_is_one_result(racy):
    assert len(run_of(racy, racy)["results"]) == len(run_of(racy)["results"]) == len(racy.findings)


def test_what_was_left_out_is_said():
    run = run_of(report_of(stopped="1 of 8 seeds ran within 1 s", unseen=("3 of 132 clusters a run", )))
    told = [(one["level"], one["message"]["text"]) for one in run["invocations"][0]["toolExecutionNotifications"]]
    assert run["results"] == [] and told == [
        ("warning", "kernel: not complete: 1 of 8 seeds ran within 1 s"), ("note", "kernel: 3 of 132 clusters a run")]
    assert run_of(report_of())["invocations"][0]["toolExecutionNotifications"] == []


TEXT = "one\n  two\nthree\nfour\n"


def replaced(text, replacement):
    """A text with one of SARIF's replacements: regions count lines and columns from 1 and end before their last column."""
    lines, region = text.splitlines(keepends=True), replacement["deletedRegion"]

    def at(line, column):
        return sum(map(len, lines[:line - 1])) + column - 1

    start, end = at(region["startLine"], region["startColumn"]), at(region["endLine"], region["endColumn"])
    assert 0 <= start <= end <= len(text)
    return text[:start] + replacement["insertedContent"]["text"] + text[end:]


@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip("\n")])
@pytest.mark.parametrize("edits", [
    [("replace", 2, 2, "  zwei")], [("replace", 3, 4, "drei\nvier")], [("insert", 1, 1, "zero")],
    [("insert", 3, 3, "  new\n  lines")], [("delete", 1, 2, "")], [("delete", 2, 2, "")], [("insert", 5, 5, "five")],
    [("delete", 1, 1, ""), ("insert", 4, 4, "new"), ("replace", 3, 3, "drei")]])
def test_a_fix_does_what_the_edits_do(edits, text, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(text)
    linecache.checkcache(str(file))
    edits = tuple(Edit(str(file), line, last, action, new) for action, line, last, new in edits)
    (result, ) = results_of(finding_at(Site(str(file), 1), edits=edits, hint=f"{file}:1: so"), folder=tmp_path)
    (fix, ) = result["fixes"]
    (change, ) = fix["artifactChanges"]
    assert fix["description"]["text"] == "kernel.py:1: so" and change["artifactLocation"] == {"uri": "kernel.py", "uriBaseId": ROOT}
    found = text
    for one in sorted(change["replacements"], key=lambda one: -one["deletedRegion"]["startLine"]):
        found = replaced(found, one)
    assert found == edited(text, edits)


def test_the_command_writes_it(racy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(FILE.parent)
    path = tmp_path / "mimw.sarif"
    words = ["check", f"{FILE.name}:case_unordered", "--seeds", "1", "--mend-time", "0", "--sarif", str(path)]
    assert main(words) == 1
    said = capsys.readouterr()
    assert f"for code review: {path}" in said.err and racy.findings[0].kind in said.out
    (run, ) = json.loads(path.read_text())["runs"]
    assert run["results"][0]["ruleId"] == racy.findings[0].kind
    assert run["automationDetails"]["id"] == f"mimw check/{FILE.name}:case_unordered/"
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == FILE.name
    assert main(["check", "--cases", FILE.name, "--seeds", "1", "--mend-time", "0", "--sarif", str(path)]) == 1
    (again, ) = json.loads(path.read_text())["runs"]
    assert again["results"] == run["results"] and again["automationDetails"]["id"] == "mimw check/cases/"


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    assert main(["check", f"{FILE}:case", "--sarif", str(tmp_path / "none" / "a.sarif")]) == 2
    assert "there is no folder" in capsys.readouterr().err
