"""The values of a pipe, all first class: they go to helpers and partitions, through control flow and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language.core as tl

from ..core import identifier
from .pipe_record import PipeRecord


class FieldDict(dict):
    """Name -> buffer, also for names that are constexprs."""

    def __getitem__(self, name):
        return super().__getitem__(name.value if isinstance(name, tl.constexpr) else name)


@dataclass(frozen=True)
class PartsType(tl.base_type):
    """The type of a value that is made of others: `kind` is its class, `detail` what else tells it apart."""

    kind: type
    record: PipeRecord
    names: tuple[str, ...]
    parts: tuple[tl.base_type, ...]
    detail: tuple = ()

    def mangle(self) -> str:
        return identifier(f"{self.kind.__name__}_{self.record.number}_{'_'.join(map(str, self.detail))}_{'_'.join(self.names)}")

    def _flatten_ir_types(self, builder, out: list) -> None:
        for part in self.parts:
            part._flatten_ir_types(builder, out)

    def _unflatten_ir(self, handles: list, cursor: int):
        values = []
        for part in self.parts:
            value, cursor = part._unflatten_ir(handles, cursor)
            values.append(value)
        return self.kind(self.record, dict(zip(self.names, values, strict=True)), self.detail), cursor

    def __str__(self) -> str:
        return f"{self.kind.__name__}<{self.record.label}>"


class Parts(tl.base_value):
    """A value made of others, by name. Names with `_` in front are ours, the others the pipe's fields."""

    def __init__(self, record: PipeRecord, parts: dict[str, Any], detail: tuple = ()):
        super().__init__()
        self._record, self._parts, self._detail = record, parts, detail
        self.type = PartsType(type(self), record, tuple(parts), tuple(part.type for part in parts.values()), detail)

    def _flatten_ir(self, handles: list) -> None:
        for part in self._parts.values():
            part._flatten_ir(handles)

    def _set_name(self, builder, name: str) -> None:
        for part, value in self._parts.items():
            value._set_name(builder, f"{name}.{part.removeprefix('_')}")

    def __str__(self) -> str:
        return str(self.type)

    @property
    def _fields(self) -> FieldDict:
        return FieldDict((name, part) for name, part in self._parts.items() if not name.startswith("_"))


class Described(Parts):
    """What a pipe and its endpoints tell of themselves."""

    @property
    def capacity(self) -> int:
        """Chunks that fit in the pipe."""
        return self._record.capacity

    @property
    def scope(self) -> str:
        """Always "cta"."""
        return "cta"

    @property
    def name(self) -> str | None:
        """What the author called the pipe."""
        return self._record.name

    @property
    def fields(self) -> FieldDict:
        """Name -> whole buffer, of the fields that are visible here."""
        return self._fields


class pipe_slot(Parts):
    """One stage of a pipe: an attribute for each visible field, the buffer without its leading dimension.

    The code generator looks names up in `fields` first, so that a field may have any legal name.
    """

    @property
    def fields(self) -> FieldDict:
        """Name -> buffer."""
        return self._fields


class pipe_wait_result(Parts):
    """What `reader.wait` gives."""

    @property
    def slot(self) -> pipe_slot:
        """The stage's buffers."""
        return self._parts["_slot"]

    @property
    def is_closed(self) -> tl.tensor:
        """An i1 scalar: true for an end marker."""
        return self._parts["_is_closed"]
