"""An entry of the reference as nodes of docutils: signature, contract, members, with an anchor, and known to Sphinx by its name.

Input: an `Entry` and Sphinx's environment. Output: nodes for a page. For example:

    drawn(entry("mimw.tlx", "barrier_wait"), env)       its anchor is #mimw.tlx.barrier_wait; search and index know it

A docstring is drawn as it is written: one backtick is code, labelled parts are a list of fields, arguments a list in it.
"""

from __future__ import annotations

import ast
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.environment import BuildEnvironment

from .contract import Block, Code, Item, Part, Prose, Row, blocks
from .entries import Entry, Parameter

_CODE = re.compile(r"(`+)(.+?)\1")
_SHOWN_KINDS = ("class", "exception", "property")


def drawn(entry: Entry, env: BuildEnvironment, fields: dict[str, list[str]] | None = None) -> list[nodes.Node]:
    """The nodes of an entry; `fields` are parts that the docstring does not have, each a list of lines."""
    signature = addnodes.desc_signature("", "", ids=[entry.full], module=entry.module, fullname=entry.name)
    signature["_toc_parts"], signature["_toc_name"] = (entry.module, *entry.name.split(".")), entry.name.rpartition(".")[2]
    _sign(signature, entry)
    content = addnodes.desc_content("", *contract(entry.doc, fields))
    for member in entry.members:
        content += drawn(member, env)
    described = addnodes.desc("", signature, content, domain="py", objtype=entry.kind, desctype=entry.kind,
                              classes=["py", entry.kind])
    env.domains["py"].note_object(entry.full, entry.kind, entry.full, location=signature)
    if entry.file:
        env.note_dependency(str(entry.file))
    return [_indexed(entry.name, entry.module, entry.full), described]


def _indexed(name: str, module: str, anchor: str) -> nodes.Node:
    return addnodes.index(entries=[("single", f"{name} ({module})", anchor, "", None)])


def _sign(signature: nodes.Element, entry: Entry) -> None:
    """`class mimw.tle.pipe_writer`, `mimw.tlx.barrier_wait(bar, phase, pred=None)`; of a member its own name only."""
    if entry.kind in _SHOWN_KINDS:
        signature += addnodes.desc_annotation("", "", addnodes.desc_sig_keyword("", entry.kind), addnodes.desc_sig_space())
    owner, _, name = entry.name.rpartition(".")
    if not owner:
        signature += addnodes.desc_addname("", entry.module.removeprefix("mimw.") + ".")
    signature += addnodes.desc_name("", name)
    if entry.call is not None:
        listed = addnodes.desc_parameterlist("", "")
        for parameter in entry.call:
            listed += _parameter(parameter)
        signature += listed
    if entry.bases:
        signature += nodes.inline("", f" of {', '.join(entry.bases)}", classes=["bases"])
    if entry.result:
        signature += addnodes.desc_returns("", "", nodes.Text(entry.result))


def _parameter(parameter: Parameter) -> nodes.Node:
    stars, name = re.fullmatch(r"(\**)(\w*)", parameter.name).groups()
    node = addnodes.desc_parameter("", "")
    if stars:
        node += addnodes.desc_sig_operator("", stars)
    if name:
        node += addnodes.desc_sig_name("", name)
    if parameter.annotation:
        node += [addnodes.desc_sig_punctuation("", ":"), addnodes.desc_sig_space(), nodes.Text(parameter.annotation)]
    if parameter.default:
        node += [addnodes.desc_sig_operator("", " = " if parameter.annotation else "="),
                 nodes.inline("", parameter.default, classes=["default_value"])]
    return node


def contract(docstring: str, more: dict[str, list[str]] | None = None) -> list[nodes.Node]:
    """The nodes of a docstring; parts that follow each other are one list of fields, with `more` at its end."""
    found: list[nodes.Node] = []
    for block in blocks(docstring):
        if isinstance(block, Part):
            _last(found, nodes.field_list, "contract").append(_field(block))
        else:
            _add(found, block)
    for name, lines in (more or {}).items():
        _last(found, nodes.field_list, "contract").append(_field(Part(name, tuple(map(Prose, lines)))))
    return found


def _field(part: Part) -> nodes.Node:
    body: list[nodes.Node] = []
    for block in part.body:
        _add(body, block)
    return nodes.field("", nodes.field_name("", part.label), nodes.field_body("", *body), classes=[part.label.replace(" ", "-")])


def _add(found: list[nodes.Node], block: Block) -> None:
    """A block behind those that are there; rows and items go into the list that stands last."""
    if isinstance(block, Prose):
        found.append(nodes.paragraph("", "", *inline(block.text)))
    elif isinstance(block, Code):
        found.append(nodes.literal_block(block.text, block.text, language=_language(block.text), force=True))
    elif isinstance(block, Item):
        kind = nodes.enumerated_list if block.numbered else nodes.bullet_list
        _last(found, kind, "").append(nodes.list_item("", nodes.paragraph("", "", *inline(block.text))))
    elif isinstance(block, Row):
        term = nodes.term("", "", nodes.literal("", block.term, classes=["term"]))
        said = nodes.definition("", nodes.paragraph("", "", *inline(block.text)))
        _last(found, nodes.definition_list, "arguments").append(nodes.definition_list_item("", term, said))
    else:
        _last(found, nodes.field_list, "contract").append(_field(block))


def _language(text: str) -> str:
    """Python, or no language: the output of a command, a tree, a command line."""
    try:
        ast.parse(text)
    except SyntaxError:
        return "text"
    return "python"


def _last(found: list[nodes.Node], kind: type[nodes.Element], classes: str) -> nodes.Element:
    """The list of this kind that stands last; a new one if another node does."""
    if not found or not isinstance(found[-1], kind):
        found.append(kind("", classes=classes.split()))
    return found[-1]


def inline(text: str) -> list[nodes.Node]:
    """Text with code between backticks."""
    found, at = [], 0
    for code in _CODE.finditer(text):
        found += [nodes.Text(text[at:code.start()]), nodes.literal("", code[2])]
        at = code.end()
    return [*found, nodes.Text(text[at:])]
