"""Names in the text of pages become links: of words, tools, operators and errors, of commands, and of other pages.

Input: a page as Markdown has it, where such a name is code, and a page is named by its path. Output: the same with links:

    `tlx.barrier_wait(bar, phase)`      its entry in the reference
    `mimw check --json`                 the command's
    docs/CLI.md, tutorials/06_x.py      that page, by its title; the tutorial's page in the gallery
    [how](../CONTRIBUTING.md)           the page of the site that has this file

In an entry of the reference, names of the same module and of errors need no module in front. A name of ours that there is not is a
warning, which ends the build. Modules of the package are no names of the reference, and have no link.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from . import commands
from .chips import page
from .directives import offered

DOCS = Path(__file__).parent.parent.parent
ROOT = DOCS.parent
# Files outside of docs/ that are pages of the site.
PAGES = {"README": "index", "CONTRIBUTING": "project/contributing", "CHANGELOG": "project/changelog",
         "tutorials/README": "project/tutorials"}
_ROOMS = "tlx|tle|ops|errors|distributed|testing|kernels"
_NAME = re.compile(rf"((?:mimw\.)?(?:{_ROOMS})\.[A-Za-z_][\w.]*|mimw\.[A-Za-z_][\w.]*)(\(.*\))?", re.DOTALL)
_WORD = re.compile(r"([A-Za-z_][\w.]*)(?:\W.*)?", re.DOTALL)
_COMMAND = re.compile(r"mimw ([a-z]+)\b.*", re.DOTALL)
_ERROR = re.compile(r"\b[A-Z]\w+\b")
_PATH = re.compile(r"(?<![\w/.*])(?:(?:docs/)?([\w/]+)\.md|tutorials/(\d\d)_\w+\.py)(?![\w*])")
_NO_LINKS = (nodes.reference, nodes.title, nodes.literal_block, addnodes.pending_xref, addnodes.download_reference,
             addnodes.desc_signature, nodes.term)


class Links(SphinxTransform):
    """Runs on each page as it is read."""

    default_priority = 700      # behind those that read the page

    def apply(self, **options) -> None:
        self.words = _words_of(self.env.docname)
        for node in list(self.document.findall(addnodes.pending_xref)):
            _into_the_site(node)
        for node in list(self.document.findall(nodes.Text)):
            if _inside(node, _NO_LINKS):
                continue
            if isinstance(node.parent, nodes.literal):
                self._of_code(node.parent)
            else:
                self._of_text(node)

    def _of_code(self, code: nodes.literal) -> None:
        text = code.astext()
        if reference := self._name(text) or self._neighbour(code, text):
            code.replace_self(reference)
            reference += code
        elif (path := _PATH.fullmatch(text)) and (where := _page(path)):
            code.replace_self(self._reference("std", "doc", "/" + where, code, explicit=True))

    def _name(self, text: str) -> nodes.Node | None:
        if (command := _COMMAND.fullmatch(text)) and command[1] in {*commands.commands(), *commands.aliases()}:
            return self._reference("std", "command", f"mimw {command[1]}")
        if (word := _WORD.fullmatch(text)) and word[1] in self.words:
            return self._reference("py", "obj", f"mimw.{self.env.docname}.{word[1]}")
        if text in _errors():
            return self._reference("py", "obj", f"mimw.errors.{text}")
        if (name := _NAME.fullmatch(text)):
            return self._reference("py", "obj", f"mimw.{name[1].removeprefix('mimw.')}")
        return None

    def _neighbour(self, code: nodes.literal, text: str) -> nodes.Node | None:
        """In an entry, a name of the same module: one with an underscore or a call, as arguments have short names, too."""
        entry = _entry_of(code)
        if entry is None or not (word := _WORD.fullmatch(text)) or "_" not in word[1] and "(" not in text:
            return None
        module, own = entry["module"], entry["fullname"].partition(".")[0]
        if word[1] == own or word[1] not in offered(module):
            return None
        return self._reference("py", "obj", f"{module}.{word[1]}")

    def _of_text(self, node: nodes.Text) -> None:
        text, at, found = node.astext(), 0, []
        of_errors = _inside(node, (nodes.field, )) and _entry_of(node) is not None
        matches = [*_PATH.finditer(text), *(_ERROR.finditer(text) if of_errors else ())]
        for match in sorted(matches, key=re.Match.start):
            reference = None
            if match.re is _PATH and (where := _page(match)):
                reference = self._reference("std", "doc", "/" + where, nodes.inline("", match[0]))
            elif match.re is _ERROR and match[0] in _errors():
                reference = self._reference("py", "obj", f"mimw.errors.{match[0]}", nodes.inline("", match[0]))
            if reference is not None and match.start() >= at:
                found += [nodes.Text(text[at:match.start()]), reference]
                at = match.end()
        if found:
            node.parent.replace(node, [*found, nodes.Text(text[at:])])

    def _reference(self, domain: str, kind: str, target: str, *inside: nodes.Node, explicit: bool = False) -> nodes.Element:
        explicit = explicit or kind != "doc"       # a page is called by its title
        return addnodes.pending_xref("", *(one.deepcopy() for one in inside), refdomain=domain, reftype=kind, reftarget=target,
                                     refdoc=self.env.docname, refexplicit=explicit, refwarn=True)


def _entry_of(node: nodes.Node) -> nodes.Element | None:
    """The signature of the entry of a Python name in which a node stands."""
    while (node := node.parent) is not None:
        if isinstance(node, addnodes.desc) and node["domain"] == "py":
            return node[0]
    return None


@cache
def _errors() -> frozenset[str]:
    return frozenset(offered("mimw.errors"))


def _inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def _words_of(docname: str) -> frozenset[str]:
    """On the pages of tables a word stands without its module."""
    return frozenset(page(DOCS / f"{docname}.md").words) if docname in ("tlx", "tle") else frozenset()


def _page(path: re.Match) -> str | None:
    """The page of the site that a path means, if there is such a file."""
    where = PAGES.get(path[1], path[1]) if path[1] else f"gallery/{path[2]}"
    return where if (DOCS / f"{where}.md").exists() else None


def _into_the_site(node: addnodes.pending_xref) -> None:
    """A link to a file outside of docs/ that is a page of the site, too, leads to that page."""
    target = Path(node.get("reftarget", ""))
    if node.get("refdomain") == "doc" and target.is_relative_to(ROOT):
        node["reftarget"] = PAGES.get(str(target.relative_to(ROOT)), node["reftarget"])


def missing(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Node) -> nodes.Node | None:
    """A name without an entry: what it is an attribute of has one, or it is a module; otherwise there is no such name."""
    if node.get("refdomain") != "py" or not node["reftarget"].startswith("mimw."):
        return None
    name = node["reftarget"]
    while name.count(".") > 1:
        name = name.rpartition(".")[0]
        if name.count(".") > 1 and name in env.domains["py"].objects:
            node["reftarget"] = name
            return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
    return content if _module(node["reftarget"]) else None


def _module(name: str) -> bool:
    """Whether the name is that of a module, or of something in a module that the reference leaves out."""
    parts = name.split(".")
    place = ROOT / "src" / Path(*parts)
    if place.is_dir() or place.with_suffix(".py").exists():
        return True
    outer = ROOT / "src" / Path(*parts[:-1])
    file = outer / "__init__.py" if outer.is_dir() else outer.with_suffix(".py")
    return len(parts) > 2 and file.exists() and re.search(rf"\b{parts[-1]}\b", file.read_text()) is not None


def setup(app: Sphinx) -> None:
    app.add_transform(Links)
    app.connect("missing-reference", missing)
