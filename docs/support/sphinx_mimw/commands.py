"""The command line in the reference: each command of `mimw` as its parser has it.

Input: the argument parser of `mimw`. Output: nodes for a page: usage, what the command says of itself, arguments, examples:

    {commands}      in a page: all of them; `mimw check` has the anchor #mimw-check, its option --seeds #mimw-check--seeds
"""

from __future__ import annotations

import argparse
import inspect
import re
from functools import cache

from docutils import nodes
from sphinx import addnodes
from sphinx.environment import BuildEnvironment

from .drawn import contract, inline


@cache
def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands, in the order of `mimw --help`, each under its own name only."""
    from mimw.cli import parser_of
    (found, ) = [action for action in parser_of([])._actions if isinstance(action, argparse._SubParsersAction)]
    return {parser.prog.rpartition(" ")[2]: parser for name, parser in found.choices.items() if parser.prog.endswith(f" {name}")}


def aliases() -> dict[str, str]:
    """The other names that commands have."""
    from mimw.cli import ALIASES
    return dict(ALIASES)


def drawn_command(name: str, parser: argparse.ArgumentParser, env: BuildEnvironment) -> list[nodes.Node]:
    """One command."""
    anchor = f"mimw-{name}"
    signature = addnodes.desc_signature("", "", ids=[anchor, *(f"mimw-{other}" for other, own in aliases().items() if own == name)])
    signature["_toc_parts"], signature["_toc_name"] = (name, ), f"mimw {name}"
    shown = f"mimw {name}"
    usage = re.sub(r"\s+", " ", parser.format_usage()).removeprefix(f"usage: {shown}").removeprefix(" [-h]").strip()
    signature += [addnodes.desc_name("", shown), addnodes.desc_sig_space(), nodes.inline("", usage, classes=["usage"])]
    content = addnodes.desc_content("", *contract(parser.description or ""))
    for other, own in aliases().items():
        if own == name:
            content += nodes.paragraph("", "", *inline(f"Also called `mimw {other}`."))
    for group in parser._action_groups:
        if rows := [_row(name, action, parser, env) for action in group._group_actions if _shown(action)]:
            content += nodes.rubric("", group.title)
            content += nodes.definition_list("", *rows, classes=["arguments"])
    if parser.epilog:
        content += _epilog(inspect.cleandoc(parser.epilog))
    _known(env, "command", shown, anchor, signature)
    for other, own in aliases().items():
        if own == name:
            _known(env, "command", f"mimw {other}", f"mimw-{other}", signature)
    return [addnodes.index(entries=[("single", shown, anchor, "", None)]),
            addnodes.desc("", signature, content, domain="std", objtype="command", desctype="command", classes=["std", "command"])]


def _shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)


def _known(env: BuildEnvironment, kind: str, name: str, anchor: str, location: nodes.Node) -> None:
    env.domains["std"].note_object(kind, name, anchor, location=location)


def _row(command: str, action: argparse.Action, parser: argparse.ArgumentParser, env: BuildEnvironment) -> nodes.Node:
    """An argument or an option: how it is written, and what it does."""
    formatter = parser._get_formatter()
    said = formatter._expand_help(action) if action.help else ""
    written = formatter._format_action_invocation(action)
    term = nodes.term("", "", nodes.literal("", written, classes=["term"]))
    for option in action.option_strings:
        anchor = f"mimw-{command}-{option.lstrip('-') if option.startswith('--') else option}"
        term["ids"].append(anchor)
        env.domains["std"].add_program_option(f"mimw {command}", option, env.current_document.docname, anchor)
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", "", *inline(said))))


def _epilog(text: str) -> list[nodes.Node]:
    """The examples, then what stands behind them."""
    examples, _, behind = text.removeprefix("examples:\n").partition("\n\n")
    code = inspect.cleandoc(examples)
    found: list[nodes.Node] = [nodes.rubric("", "examples"), nodes.literal_block(code, code, language="sh", force=True)]
    return found + [nodes.paragraph("", "", *inline(re.sub(r"\s+", " ", part))) for part in behind.split("\n\n") if part.strip()]
