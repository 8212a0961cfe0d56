"""The parser of command lines: argparse's, which also says what a misspelled command, option or value may have been meant as.

Input: a command line. Output: the parsed options; or the usage of the command, the mistake and the nearest name, with status 2:

    mimw check ring.py:case --sedes 3       mimw check: error: unrecognized arguments: --sedes 3. Did you mean --seeds?
    mimw chekc ring.py:case                 mimw: error: ... invalid choice: 'chekc' (choose from ...). Did you mean check?
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """`parse_args` complains of an unknown option in the name of its command, whose options `options.parser` knows."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = getattr(options, "parser", self)
            meant = [name for word in unknown if word.startswith("-")
                     for name in nearest(word.partition("=")[0], command._option_string_actions)]
            command.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(meant)}")
        return options

    def error(self, message: str) -> NoReturn:
        found = _CHOICE.search(message)
        choices = re.findall(r"[\w.-]+", found[2]) if found else ()
        super().error(message + (_meant(nearest(found[1], choices)) if found else ""))


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """The name that `word` is most likely to be misspelled of; none where all differ much."""
    return difflib.get_close_matches(word, list(names), n=1)


def _meant(names: list[str]) -> str:
    return f". Did you mean {' '.join(dict.fromkeys(names))}?" if names else ""
