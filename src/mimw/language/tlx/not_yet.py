"""The public words that this release does not offer, with their parameters: each can be imported, and says so when called.

    shuffled = _declare("shuffled", "value order=None")      tlx.shuffled(x) raises NotYet, with the line

Input: a name and its published parameters. Output: the word. It leaves this file when it is implemented in the file of its family.
"""

from __future__ import annotations

import ast
import inspect

from ..core import not_yet, word

__all__ = ["rematerialized_range"]


def _parameters(declared: str) -> list[inspect.Parameter]:
    parameters = []
    for text in declared.split():
        name, has_default, default = text.partition("=")
        value = ast.literal_eval(default) if has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value))
    return parameters


def _declare(name: str, declared: str):

    def not_offered(*args, _semantic=None, **kwargs):
        raise not_yet(_semantic, name)

    not_offered.__name__ = not_offered.__qualname__ = name
    not_offered.__doc__ = f"Not offered by this release: calling it raises `mimw.errors.NotYet`, which names tlx.{name}."
    hidden = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)
    not_offered.__signature__ = inspect.Signature([*_parameters(declared), hidden])
    return word(not_offered)


# AMD
rematerialized_range = _declare("rematerialized_range", "start end identity placement=None")
