"""docs/gallery: a page and a picture of each tutorial, and a list of all.

    python docs/support/gallery.py              write the pages, and the pictures from the runs of tests/tutorials
    python docs/support/gallery.py --pages      write the pages only
    python docs/support/gallery.py --check      1 if a page is stale

Input: the docstrings of tutorials/NN_*.py, and which run each picture shows (gallery_cases.py). Output: docs/gallery/README.md and
docs/gallery/NN.md. The pictures, docs/gallery/NN.svg, are drawn by the tests that simulate the tutorials anyway: they compare them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]

from docs.support.gallery_cases import CASES, Case
from docs.support.reflow import reflow

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"


@dataclass(frozen=True)
class Tutorial:
    """One program of tutorials/, by its file."""

    path: Path

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @property
    def case(self) -> Case:
        return CASES[self.number]

    @cached_property
    def parts(self) -> list[str]:
        """The docstring's paragraphs: the title, how to run it, and the rest."""
        return ast.get_docstring(ast.parse(self.path.read_text()), clean=True).split("\n\n")

    @property
    def title(self) -> str:
        return self.parts[0].removeprefix(self.number).strip().partition(": ")[0].rstrip(".")

    @property
    def subtitle(self) -> str:
        """What the title says behind its colon, as a sentence; some have none. Names as `cp.async` keep their letters."""
        said = self.parts[0].partition(": ")[2]
        return said if re.match(r"\w+[.\d]", said) else said[:1].upper() + said[1:]

    @property
    def first_line(self) -> int:
        """Of the program, behind its docstring."""
        docstring = ast.parse(self.path.read_text()).body[0]
        return docstring.end_lineno + 2

    @property
    def command(self) -> str:
        """The lines of a shell; what the docstring says behind a command is a comment of it."""
        told = [re.split(r" {2,}", line, maxsplit=1) for line in dedent(self.parts[1]).splitlines() if not line.startswith(" ")]
        return "\n".join(f"{line[0]:<52}# {line[1]}" for line in told)

    @property
    def prose(self) -> list[str]:
        """What the docstring says, without how it is run, which the page says, and where the next one is."""
        return [part for part in self.parts[2:] if not re.match(r"How the program is run|The steps and the launch|Next: ", part)]

    @property
    def chips(self) -> str:
        """On what it runs, by what it says of itself."""
        if "Blackwell" in self.command:
            return "sm_100a: simulated, checked and compiled; not run on a chip yet"
        if "torchrun" in self.command:
            return "sm_90a, several GPUs; simulated and checked without one"
        return "sm_90a; simulated and checked without a GPU" + ("; ascend_910b, simulated" if "Ascend" in self.parts[0] else "")

    @property
    def launched(self) -> str:
        """The command that runs it on any machine."""
        return f"python tutorials/{self.path.name}"


def tutorials() -> list[Tutorial]:
    return [Tutorial(path) for path in sorted((ROOT / "tutorials").glob("[0-9][0-9]_*.py"))]


def sentence(text: str) -> str:
    """On one line."""
    return " ".join(text.split())


def image(tutorial: Tutorial) -> str:
    """The picture; what there is to see stands below it."""
    return f"![Timeline of a run of tutorial {tutorial.number}]({tutorial.number}.svg)"


def markdown(part: str) -> str:
    """A paragraph of a docstring; what is indented there is a block here."""
    lines = part.split("\n")
    if not all(line.startswith("    ") for line in lines):
        return part.replace("<", "\\<")
    return "\n".join(["```text", *(line.removeprefix("    ") for line in lines), "```"])


def page(tutorial: Tutorial, around: tuple[Tutorial | None, Tutorial | None]) -> str:
    """The page of one tutorial: what it says, its picture, its source as it stands in the file."""
    before, after = (f"[{one.number} {one.title}]({one.number}.md)" if one else "" for one in around)
    source = f"../../tutorials/{tutorial.path.name}"
    links = " · ".join([f"[source]({source})", "[all tutorials](README.md)", *([f"before: {before}"] if before else []),
                        *([f"next: {after}"] if after else [])])
    return "\n".join([
        "<!-- made by docs/support/gallery.py -->",
        f"# {tutorial.number}  {tutorial.title}", "", *([f"*{tutorial.subtitle}*", ""] if tutorial.subtitle else []),
        "\n\n".join(markdown(part) for part in tutorial.prose), "",
        "## Run it", "", "```sh", tutorial.command, "```", "", f"Chips: {tutorial.chips}.", "",
        "## What a run looks like", "", image(tutorial), "", sentence(tutorial.case.says), "",
        f"The picture is of a small case on the simulator, `{tutorial.case.test}` of "
        f"[its test](../../tests/tutorials/test_{tutorial.path.name}), in abstract cycles: read it for order and waiting, not for "
        f"time. `MIMW_SIMULATE=1 MIMW_TIMELINE=run.html {tutorial.launched}` draws another one.", "",
        "## The program", "", f"```{{literalinclude}} {source}", ":language: python",
        f":lines: {tutorial.first_line}-", ":lineno-match:", "```", "", links, ""])


def listing(shown: list[Tutorial]) -> str:
    """The page of all."""
    lines = [
        "<!-- made by docs/support/gallery.py -->", "# Tutorials", "",
        "Short programs, each one idea further than the one before. Each runs without a GPU, checked and simulated on a small",
        "case; on a GPU it is measured against the baseline. A picture is the timeline of such a small case: what each task did,",
        "and for what it waited. How they build on each other: `tutorials/README.md`.", ""]
    for one in shown:
        lead = one.prose[:2 if one.prose[0].endswith(":") else 1]
        lines += [f"## [{one.number}  {one.title}]({one.number}.md)", "", *([f"*{one.subtitle}*", ""] if one.subtitle else [])]
        lines += ["\n\n".join(map(markdown, lead)), "", image(one), "",
                  sentence(one.case.says), "", f"`{one.launched}` · {one.chips}", ""]
    lines += ["```{toctree}", ":hidden:", "", *(one.number for one in shown), "```", ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """File name -> text."""
    shown = tutorials()
    around = zip([None, *shown], [*shown[1:], None])
    made = {"README.md": listing(shown)} | {f"{one.number}.md": page(one, both) for one, both in zip(shown, around)}
    return {name: reflow(text) for name, text in made.items()}


def draw() -> int:
    """The tests whose runs are drawn, told to write what they draw."""
    tests = [f"tests/tutorials/test_{one.path.stem}.py::{one.case.test}" for one in tutorials()]
    tests.append("tests/tutorials/test_02_warp_specialised_gemm.py::test_an_early_arrival")     # found_bug.py
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--forked", "0", "--update-golden", *tests], cwd=ROOT).returncode


def main(arguments: list[str]) -> int:
    made = pages()
    if "--check" in arguments:
        return int(any(not (GALLERY / name).exists() or (GALLERY / name).read_text() != text for name, text in made.items()))
    GALLERY.mkdir(exist_ok=True)
    for name, text in made.items():
        (GALLERY / name).write_text(text)
    return 0 if "--pages" in arguments else draw()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
