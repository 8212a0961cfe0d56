"""Options that must be given by name, and an error that says which name.

Input: a function with keyword-only options. Output: the same function, whose refusal of options by position names them:

    @options_by_name("...")
    def attention(q, k, v, *, causal=False): ...

    attention(q, k, v, True)        TypeError: attention() takes its options by name: causal=True. ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def options_by_name(hint: str) -> Callable[[Callable], Callable]:
    """A decorator; `hint` ends the error's text."""
    def decorate(function: Callable) -> Callable:
        parameters = inspect.signature(function).parameters.values()
        options = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        count = len(parameters) - len(options)

        @wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            if len(args) > count:
                given = ", ".join(f"{name}={_shown(value)}" for name, value in zip(options, args[count:]))
                torch._check_type(False, lambda: f"{function.__name__}() takes its options by name: {given}. {hint}")
            return function(*args, **named)

        return checked

    return decorate


def _shown(value: Any) -> str:
    """Numbers and words as they are; of others, the class."""
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else f"<{type(value).__name__}>"


__all__ = ["options_by_name"]
