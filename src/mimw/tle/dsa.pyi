"""Written by docs/support/stubs.py: the room tle.dsa for type checkers."""

from typing import Any

from ..language.tle.dsa import *  # noqa: F403

def __getattr__(name: str) -> Any: ...
