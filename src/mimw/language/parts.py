"""Values that are made of others by name: they go to helpers, through control flow and back as their parts do.

Input: parts, and the object that all values of one origin share. Output: a value for Triton's code generator. For example:

    pipe_slot(record, {"k": buffer, "v": buffer})       flattens to two handles; assigned to `s`, its parts are named s.k and s.v
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language.core as tl

from .composite import CompositeType
from .core import identifier


@dataclass(frozen=True)
class PartsType(CompositeType):
    """The type of a value that is made of others: `kind` is its class, `owner` and `detail` distinguish it from others of the
    class."""

    kind: type
    owner: Any
    names: tuple[str, ...]
    parts: tuple[tl.base_type, ...]
    detail: tuple = ()

    def mangle(self) -> str:
        return identifier(f"{self.kind.__name__}_{id(self.owner)}_{'_'.join(map(str, self.detail))}_{'_'.join(self.names)}")

    def of(self, values: list) -> Parts:
        return self.kind(self.owner, dict(zip(self.names, values, strict=True)), self.detail)

    def __str__(self) -> str:
        return f"{self.kind.__name__}<{self.owner.label}>"


class Parts(tl.base_value):
    """A value made of others, by name. Names with `_` in front are ours; the part named `_` has the name of the whole."""

    def __init__(self, owner: Any, parts: dict[str, Any], detail: tuple = ()):
        super().__init__()
        self._owner, self._parts, self._detail = owner, parts, detail
        self.type = PartsType(type(self), owner, tuple(parts), tuple(part.type for part in parts.values()), detail)

    def _flatten_ir(self, handles: list) -> None:
        for part in self._parts.values():
            part._flatten_ir(handles)

    def _set_name(self, builder, name: str) -> None:
        for part, value in self._parts.items():
            value._set_name(builder, f"{name}.{part.removeprefix('_')}" if part != "_" else name)

    def __str__(self) -> str:
        return str(self.type)

    @property
    def _shown(self) -> dict[str, Any]:
        """Attributes that the author has named: they come before those of the class."""
        return {}
