"""The code blocks of a page of Markdown, and a reader who does what the page says.

Input: a page. Output: its `Block`s, each with the language of its fence and the comment above it; or, of `Reader`, an assertion
that names the page and the line where what happens is not what the page says. For example:

    blocks(Path("docs/START.md"))[0]        Block(page="docs/START.md", line=11, language="sh", text="python3 -m venv ...", mark="")

`Reader` has a folder of its own. What it does with a block goes by the language:

    python      runs; all of a page are one program, which begins with `PRELUDE`. In a comment `<!-- python ... -->` it is not
                shown. Under `<!-- file: ring.py -->` it is that file, for the commands that follow;
                under `<!-- excerpt -->` and `<!-- on a GPU -->` it is compiled by Python, and no more.
                `<!-- with FILE of PAGE -->` anywhere takes a file of another page
    text        is what the Python block above printed, if it stands right below one. Else it is a picture or a pattern: lines that
                begin with a command of mimw name options that it has
    diff        changes the file that was written last: as the page has it or, where only that has such lines, as it is by now
    console     each line behind `$ ` runs in this process, `pytest` in one of its own; what follows is what it prints. `...` stands
                for anything.
    sh          each command exists, with those options; it is not run
    yaml        so does each that stands behind `run:`, and behind `entry:`, of hooks, with the name of a file behind it
    c, mlir     are for tests/docs/test_package.py and test_raw_mlir.py
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import linecache
import re
import runpy
import shlex
import sys
import textwrap
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mimw.cli import COMMANDS, main, parser_of
from tests.processes import python

ROOT = Path(__file__).parents[2]
OURS = {"mimw", "make", "python", "python3"}
SYSTEM = {".", "cc", "cd", "check-wheel-contents", "export", "g++", "git", "grep", "mypy", "nvcc", "pip", "pyright", "pyroma",
          "pytest", "torchrun", "twine", "validate-pyproject"}     # not looked up
LANGUAGES = {"python", "text", "diff", "console", "sh", "yaml", "c", "mlir"}
READ_ONLY = ("excerpt", "on a GPU")         # marks of Python that is compiled and not run
# Our plugin is named; of one that is loaded by itself pytest would warn, since `python` has imported it before.
pytest = partial(python, "-m", "pytest", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
PRELUDE = "import mimw, numpy as np, triton, triton.language as tl\nfrom mimw import tle, tlx\n"


@dataclass(frozen=True)
class Block:
    """`line` is that of the fence, `mark` the comment right above it, `above` the language of a block right above it."""

    page: str
    line: int
    language: str
    text: str
    mark: str = ""
    above: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page that people read; what programs write into docs/ is among them."""
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tutorials/README.md")]
    return own + sorted((ROOT / "docs").rglob("*.md"))


def blocks(path: Path) -> list[Block]:
    page = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    found: list[Block] = []
    lines = path.read_text().splitlines()
    at, before, last_end = 0, "", -9
    while at < len(lines):
        fence = re.match(r"( *)```(\S*)", lines[at])
        if lines[at] == "<!-- python":
            end = lines.index("-->", at)
            found.append(Block(page, at + 1, "python", "\n".join(lines[at + 1:end]) + "\n"))
            at = end
        elif fence:
            end = next(index for index in range(at + 1, len(lines)) if lines[index].strip() == "```")
            inside = textwrap.dedent("\n".join(lines[at + 1:end])) + "\n"
            mark = re.fullmatch(r"<!-- (.*) -->", before.strip())
            adjoining = found[-1].language if at - last_end <= 2 else ""
            found.append(Block(page, at + 1, fence[2], inside, mark[1] if mark else "", adjoining))
            at = last_end = end
        elif re.match(r" {4,}\S", lines[at]) and not before.strip() and not _in_list(lines, at):
            end = next((index for index in range(at, len(lines)) if not re.match(r" {4}|$", lines[index])), len(lines))
            found.append(Block(page, at + 1, "", textwrap.dedent("\n".join(lines[at:end])).rstrip() + "\n"))
            at = end - 1
        before = lines[at]
        at += 1
    return found


def _in_list(lines: list[str], at: int) -> bool:
    """Whether an indented line goes on with an item of a list."""
    while at and (not lines[at].strip() or lines[at].startswith("  ")):
        at -= 1
    return bool(re.match(r"(\*|-|\d+\.) ", lines[at]))


def commands(text: str) -> list[list[str]]:
    """The commands of a block of `sh`, as words: comments are dropped, lines joined at `\\`, pipes and `&&` taken apart."""
    found = []
    for line in re.sub(r"\\\n|\w+=\$\(.*\)", " ", text).splitlines():
        words: list[str] = []
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        for word in [*lexer, ";"]:
            if set(word) <= set("|&;"):
                found += [words] if words else []
                words = []
            else:
                words.append(word)
    return found


class Reader:
    """Does what a page says, in `folder`, and asserts that what comes of it is what the page says."""

    def __init__(self, page: Path, folder: Path):
        self.folder, self.names, self.page = folder, {}, page
        self.whole = ""
        self.printed: str | None = None
        self.written: Path | None = None
        for file, other in re.findall(r"^<!-- with (\S+) of (\S+) -->$", page.read_text(), re.MULTILINE):
            self.python(next(block for block in blocks(page.with_name(other)) if block.mark == f"file: {file}"))

    def read(self, block: Block) -> None:
        if block.language.startswith("{"):      # a directive of the site
            return
        if not block.language:
            assert commands(block.text)[0][0] in OURS | SYSTEM, f"{block.place}: begin the block by ``` and its language"
            return self.sh(block)
        assert block.language in LANGUAGES, f"{block.place}: a block is one of ```{', ```'.join(sorted(LANGUAGES))}"
        getattr(self, block.language, lambda _: None)(block)

    def python(self, block: Block) -> None:
        self.printed = None
        kind, _, rest = block.mark.partition(": ")
        if kind == "file":
            self.written = self.folder / rest
            self.whole = block.text
            self.written.write_text(block.text)
        elif block.mark.startswith(READ_ONLY):
            ast.parse(block.text)
        else:
            self._run(block)

    def _run(self, block: Block) -> None:
        """As the next lines of one program, from a file, since a kernel needs its source."""
        path = self.folder / f"{self.page.stem.lower()}_{block.line}.py"
        path.write_text(block.text)
        if not self.names:
            self.names["__name__"] = "page"
            exec(PRELUDE, self.names)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block.text, str(path), "exec"), self.names)
        self.printed = out.getvalue()

    def text(self, block: Block) -> None:
        if block.above == "python" and self.printed is not None:
            self.same(block, block.text, self.printed)
        for usage in re.findall(r"^mimw (?:.*\n)(?: .*\n)*", block.text, re.MULTILINE):
            command = usage.split()[1]
            unknown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", usage.partition(" | ")[0])) - options_of(command)
            assert not unknown, f"{block.place}: mimw {command} has no {', '.join(sorted(unknown))}"

    def diff(self, block: Block) -> None:
        old, new = ("".join(line[1:] + "\n" for line in block.text.splitlines() if line[:1] in kept) for kept in (" -", " +"))
        text = next((one for one in (self.whole, self.written.read_text()) if one.count(old) == 1), None)
        assert text is not None, f"{block.place}: these lines do not stand once in {self.written.name}"
        self.written.write_text(text.replace(old, new))
        linecache.clearcache()

    def console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, said = part.partition("\n")
            self.same(block, said, self.ran(shlex.split(command)))

    def ran(self, words: list[str]) -> str:
        """What a command prints: one of mimw's, a program of the page, or grep."""
        program, *rest = words
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            if program == "mimw":
                main(rest)
            elif program == "pytest":
                print(pytest("-p", "mimw.cli.pytest_plugin", "-p", "no:cacheprovider", *rest).stdout)
            elif program == "grep":
                assert rest[0] == "-c"
                print(sum(rest[1] in line for line in (self.folder / rest[2]).read_text().splitlines()))
            else:
                assert program == "python", f"nobody runs {program} here: write it as ```sh"
                argv = sys.argv[:]
                sys.argv[:] = rest
                try:
                    runpy.run_path(str(self.folder / rest[0]), run_name="__main__")
                finally:
                    sys.argv[:] = argv
        return out.getvalue()

    def same(self, block: Block, page: str, happened: str) -> None:
        """But for line breaks, where the page has shorter lines, for the folder, and for what stands under `...`."""
        found = " ".join(happened.replace(f"{self.folder}/", "").split())
        pattern = r"\s*".join(".*?" if word == "..." else re.escape(word) for word in page.split())
        if re.fullmatch(pattern, found) is None:     # no `assert`, to whose message pytest adds where it rewrites this file
            raise AssertionError(f"{block.place} has\n{page}\nand what happened is\n{happened}")

    def sh(self, block: Block) -> None:
        for words in commands(block.text):
            fault = self.fault(words)
            assert fault is None, f"{block.place}: {shlex.join(words)}: {fault}"

    def yaml(self, block: Block) -> None:
        """Settings of tools that call commands, hooks with the files behind them."""
        found = re.findall(r"^ *(?:- )?(run|entry): (.*)", block.text, re.M)
        self.sh(replace(block, text="".join(f"{command}{' changed.py' * (key == 'entry')}\n" for key, command in found)))

    def fault(self, words: list[str]) -> str | None:
        """What is wrong with a command that is not run; None if it could be."""
        while words and re.match(r"\w+=", words[0]):
            words = words[1:]
        if not words or words[0] in SYSTEM:
            return None
        program, *rest = words
        if program == "make":
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return next((f"no target {word}" for word in rest if "=" not in word and word not in targets), None)
        if program in ("python", "python3", "mypy"):
            return self.no_program(rest)
        return self.no_command(rest) if program == "mimw" else f"no command {program}"

    def no_program(self, rest: list[str]) -> str | None:
        if rest[:1] == ["-m"]:
            return None if importlib.util.find_spec(rest[1]) else f"no module {rest[1]}"
        there = [self.folder / rest[0], ROOT / rest[0]] if rest else []
        starts = {"script.py"} | {path.name for path in (ROOT / "src/mimw/cli/starts").iterdir()}
        return None if not rest or rest[0] in starts or any(path.exists() for path in there) else f"no program {rest[0]}"

    def no_command(self, rest: list[str]) -> str | None:
        """A command line that the parser takes."""
        from mimw.cli.script import split_at_script
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                parser_of(rest[:1]).parse_args(split_at_script(rest)[0])
            except SystemExit as end:
                return said.getvalue().strip() if end.code else None
        return None


def options_of(command: str) -> set[str]:
    """Every option that a command of mimw takes."""
    assert command in COMMANDS, f"no command {command}"
    (commands_of, ) = (one for one in parser_of([command])._actions if isinstance(one.choices, dict))
    return {option for one in set(commands_of.choices.values()) for action in one._actions for option in action.option_strings}
