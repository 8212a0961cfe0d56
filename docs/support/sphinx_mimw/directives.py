"""Directives for pages of the reference, each a place where entries from the code stand.

Input: what a page names. Output: the entries. For example, in a page:

    {words} mimw.tlx                {words} mimw.tle                {names} mimw.ops
    Barriers and fences             pipe pipe_value pipe_slot       {commands}

`words` takes names of the module, or headings of the table in docs/tlx.md, whose words it then has, with the chips that have each.
`names` has all of a module's `__all__` that are no modules, or only those that are named; with `:about:` first what the module says
of itself, with `:results:` instead of the functions the classes of what they give.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from . import commands
from .chips import Works, page
from .drawn import contract, drawn, inline
from .entries import Entry, entry, homes, result_of

DOCS = Path(__file__).parent.parent.parent
PACKAGE = DOCS.parent / "src" / "mimw"
READ = {"mimw.ops": PACKAGE / "ops", "mimw.ops.distributed": PACKAGE / "ops" / "distributed"}       # importing them takes torch
REST = "Types and values"


class Words(SphinxDirective):
    """Words of a language, with the chips on which they work."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        module, found = self.arguments[0], []
        for name in self._names(module):
            found += drawn(entry(module, name), self.env, {"chips": [row.text() for row in works(module, name)]})
        self.env.note_dependency(str(table_of(module)))
        return found

    def _names(self, module: str) -> list[str]:
        families = page(table_of(module)).families
        names: list[str] = []
        for line in self.content:
            names += families.get(line.strip()) or (rest_of(module) if line.strip() == REST else line.split())
        return names


def table_of(module: str) -> Path:
    """The page that says where the words of a module work."""
    return DOCS / f"{module.split('.')[1]}.md"


def works(module: str, name: str) -> list[Works]:
    """On which chips a word works, by the page's own name of it: `gpu.copy` for `copy` of mimw.tle.gpu."""
    room = module.split(".")[2:]
    return page(table_of(module)).words.get(".".join([*room, name]), [])


def rest_of(module: str) -> list[str]:
    """The names of a module that stand in no table of its page."""
    return sorted(set(import_module(module).__all__) - set(page(table_of(module)).words), key=str.lower)


class Names(SphinxDirective):
    """Functions and classes of a module."""

    required_arguments = 1
    has_content = True
    option_spec = {"results": directives.flag, "about": directives.flag}

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        if module in READ:
            places = homes(READ[module])
            found = [entry(module, name, places[name]) for name in self._asked() or places]
        else:
            found = [entry(module, name) for name in self._public(module)]
        if "results" in self.options:
            found = list(_results(found).values())
        about = contract(inspect.getdoc(import_module(module)) or "") if "about" in self.options else []
        return about + [node for one in found for node in drawn(one, self.env)]

    def _asked(self) -> list[str]:
        return [name for line in self.content for name in line.split()]

    def _public(self, module: str) -> list[str]:
        if asked := self._asked():
            return asked
        loaded = import_module(module)
        return [name for name in public(module) if not inspect.ismodule(getattr(loaded, name)) and not name.startswith("__")]


def public(module: str) -> list[str]:
    """The names that a module of ours offers: its `__all__`, or all classes that it defines, in their order."""
    loaded = import_module(module)
    own = [name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module and not name.startswith("_")]
    return list(getattr(loaded, "__all__", own))


@cache
def offered(module: str) -> frozenset[str]:
    """The same, whether or not importing the module takes torch."""
    return frozenset(homes(READ[module]) if module in READ else public(module))


def _results(entries: list[Entry]) -> dict[str, Entry]:
    """The classes of what these functions give, each once, as names of the modules that define them."""
    classes = [found for one in entries if (found := result_of(one.module, one.name))]
    return {found.__name__: entry(found.__module__, found.__name__) for found in classes}


class Commands(SphinxDirective):
    """The command line."""

    def run(self) -> list[nodes.Node]:
        for file in sorted((PACKAGE / "cli").glob("*.py")):
            self.env.note_dependency(str(file))
        return [node for name, parser in commands.commands().items() for node in commands.drawn_command(name, parser, self.env)]


class Modules(SphinxDirective):
    """The packages in a folder of ours, each with the first sentence of what it says of itself."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        import ast
        items = nodes.definition_list("", classes=["arguments"])
        for file in sorted((PACKAGE.parent / self.arguments[0].replace(".", "/")).glob("*/__init__.py")):
            self.env.note_dependency(str(file))
            said = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
            term = nodes.term("", "", nodes.literal("", f"{self.arguments[0]}.{file.parent.name}", classes=["term"]))
            items += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", "", *inline(said))))
        return [items]
