"""Arguments of a call by the names of the parameters, as Python binds them.

Input: the signature of a function, once; the arguments of a call. Output: a value for each parameter, defaults too. An example:

    bind = binder(inspect.signature(lambda a, b=2, *, c: None))
    bind((1, ), {"c": 3})                   {"a": 1, "b": 2, "c": 3}

`inspect.Signature.bind` takes ten times as long, and a kernel calls words and helpers by the hundred. It is still asked where a
call does not bind, for what it says, and for parameters such as `*args`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def all_by_name(signature: inspect.Signature) -> bool:
    """True if each argument can be given by the name of its parameter."""
    return all(parameter.kind in _NAMED for parameter in signature.parameters.values())


def binder(signature: inspect.Signature) -> Callable[[tuple, Mapping[str, Any]], dict[str, Any]]:
    """A function of the arguments of a call, (positional, by name), that gives them by parameter; TypeError if they do not bind."""
    parameters = signature.parameters
    names = [name for name, parameter in parameters.items() if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    simple = all_by_name(signature)

    def bind(args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if simple and len(args) <= len(names) and kwargs.keys() <= defaults.keys():
            given = dict(zip(names, args))
            found = {**defaults, **given, **kwargs}     # in the order of the parameters
            if given.keys().isdisjoint(kwargs) and not any(value is inspect.Parameter.empty for value in found.values()):
                return found
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return bind
