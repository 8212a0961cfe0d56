"""Written by docs/support/stubs.py: the room tle.raw.scf for type checkers."""

from typing import Any

def __getattr__(name: str) -> Any: ...
