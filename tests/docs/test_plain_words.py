"""Pages and messages that users meet are in the terms of docs/GLOSSARY.md, and in whole sentences.

Input: the pages for users, every text in the code of the package that is long enough to be a message, and the docstrings of public
names. Output: the places of words that have a plainer one. For example:

    docs/START.md: 'given back' in "the slot is given back before it has been read": write 'release'
"""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

from tests.every import every

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "mimw"
PAGES = [ROOT / "README.md", ROOT / "tutorials" / "README.md",
         *(ROOT / "docs" / f"{name}.md" for name in """
             START DEBUGGING CHECKING CI PYTHON CLI tlx tle LAUNCHING EXTENTS COMING_FROM AMD SPACES RAW RAW_BODIES RAW_MLIR
             THREE_WAYS BUGS PACKAGE DISTRIBUTED TIMING SCALING OPERATORS index""".split()),
         *(path for folder in ("concepts", "gallery", "operators", "reference")
           for path in sorted((ROOT / "docs" / folder).rglob("*.md")))]
MODULES = ["mimw", "mimw.tlx", "mimw.tle", "mimw.tle.gpu", "mimw.tle.dsa", "mimw.tle.raw", "mimw.distributed", "mimw.errors"]
# What is not to be read: a pattern, and what to write. Most of the latter are terms of the glossary.
PLAINER = {
    r"(?<!key)\bwords?\b": "function, or signal, or state of a barrier",
    r"\b(?:are|be|been|is|was|were|not) told\b|\btold (?:of|that|by|to)\b|\btells? (?:it|them|others|each)\b": "receive, report",
    r"\b(?:give|gives|gave|given|giving) (?:\w+ )?back\b": "release",
    r"\b(?:hands?|handed|handing) (?:(?:it|them|one|what|the|a|all|data|tiles?|buffers?|whole) ){0,3}on\b(?! \d)": "pass on",
    r"\b(?:do not|cannot|must|to|let \w+|CTAs|programs|ranks|threads|waves|warps) meet\b|\bmeets (?:all|nobody)\b": "synchronise",
    r"\bto be had\b|\blies elsewhere\b|\bwhat joined\b|\bnobody asks\b|\bnobody can\b|\bwhoever\b": "a subject and a verb",
    r"\b(?:at hand)\b": "available",
    r"(?<!over )(?<!bug of )\bours\b": "of mimw",
    r"\bas ever\b": "as usual",
    r"\b(?:goes|go|gone|come|came) round\b|\bthe other way round\b|\bway round\b": "iterate, swap, alternative",
    r"\b(?:descriptor|mask|launch|struct)\w* (?:[^.:]{0,40} )?cannot be[:.]": "is invalid",
    r"\brooms\b": "workspace",
}
PATTERNS = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in PLAINER.items()}
# Texts that name syntax, or the memory of a machine.
SYNTAX = ("'with words'", "words of 4 bytes", "(?P<word>", "words > 0", r"\[word\+4\]")


def plainer(text: str) -> list[str]:
    """Each thing in `text` that has a plainer word: 'given back': write 'release'."""
    if any(one in text for one in SYNTAX):
        return []
    return [f"{found[0]!r} in {text[max(0, found.start() - 40):found.end() + 40]!r}: write {instead!r}"
            for pattern, instead in PATTERNS.items() for found in pattern.finditer(text)]


def prose(path: Path) -> str:
    """A page without its programs, tables of contracts, code in lines, titles of bugs in links, and what runs have printed."""
    text = re.sub(r"^(`{3,}).*?^\1", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def sentences(path: Path) -> list[str]:
    """The sentences of the paragraphs and lists of a page."""
    text = re.sub(r"^(`{3,}).*?^\1|^[|#<!{*].*?$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    paragraphs = re.split(r"\n\s*\n|\n(?=\* |\d+\. )", text)
    return [one.strip() for paragraph in paragraphs for one in re.split(r"(?<=[.!?:])\s+(?=[A-Z])", " ".join(paragraph.split()))]


@cache
def messages(path: Path) -> list[tuple[int, str]]:
    """Line and text of what a file may print: its texts of five words or more that are no docstrings, and name no register."""
    found, left = [], [ast.parse(path.read_text())]
    while left:     # a third of what `ast.walk` takes, which asks each name for its children
        node = left.pop()
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            left += (part for part in node.values if not isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant):
            text = node.value
        else:
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
                del node.body[0]
            for name in node._fields:
                value = getattr(node, name)
                if isinstance(value, list):
                    left += (one for one in value if isinstance(one, ast.AST))
                elif isinstance(value, ast.AST) and value._fields:
                    left.append(value)
            continue
        if isinstance(text, str) and text.count(" ") >= 4 and ".reg ." not in text and "\n@" not in text and ".b64" not in text:
            found.append((node.lineno, text))
    return sorted(found)


FILES = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))
         if not path.is_relative_to(PACKAGE / "ir" / "ops") and not path.is_relative_to(PACKAGE / "cli" / "completion.py")]


def terms() -> list[str]:
    rows = [line.split("|") for line in (ROOT / "docs" / "GLOSSARY.md").read_text().splitlines() if line.startswith("| ")]
    return [term.strip() for row in rows if row[1].strip() != "Term" for term in row[1].split(",")]


def test_the_glossary_is_short_and_each_term_is_there_once():
    assert 40 <= len(terms()) <= 60
    assert len(set(terms())) == len(terms())


def test_words_to_avoid_are_found():
    assert plainer("the slot is given back before it was read")[0].endswith("write 'release'")
    assert plainer("this word is refused") and plainer("no rank is told of it") and plainer("no chip was at hand")
    assert not plainer("a keyword argument of the launch") and not plainer("the task releases the slot")


@every([path.relative_to(ROOT).as_posix() for path in PAGES])
def test_a_page_uses_the_terms(page):
    assert not (found := plainer(prose(ROOT / page))), "\n".join(found)


@every([path.relative_to(ROOT).as_posix() for path in PAGES])
def test_no_sentence_of_a_page_has_a_clause_for_a_subject(page):
    """"What is loaded waits" makes the reader look for the subject; a question may begin so."""
    found = [one for one in sentences(ROOT / page) if re.match(r"(What|Whoever|Whatever|Whom?)\b", one) and one[-1] != "?"]
    assert not found, "\n".join(found)


@every(FILES)
def test_messages_use_the_terms(file):
    found = [f"line {line}: {one}" for line, text in messages(PACKAGE / file) for one in plainer(text)]
    assert not found, "\n".join(found)


@every(MODULES)
def test_docstrings_of_public_names_use_the_terms(module):
    room = importlib.import_module(module)
    shown = [getattr(room, name) for name in room.__dict__ if not name.startswith("_")]
    texts = {item.__name__: inspect.getdoc(item) or "" for item in shown if inspect.isfunction(item) or inspect.isclass(item)
             if item.__module__.startswith("mimw")}
    found = [f"{name}: {one}" for name, text in texts.items() for one in plainer(text)]
    assert not found, "\n".join(found)
