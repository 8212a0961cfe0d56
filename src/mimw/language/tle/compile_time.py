"""Values of ours that are known at compile time and may be named, assigned and passed on in kernels: meshes, shardings.

Input: a subclass with a `cache_key`, a text with all the content of the value. Output: a value and a type for Triton's
code generator, neither of which puts anything into the IR. For example, with mesh = device_mesh({"grid": [("cluster_x",
2)]}):

    mesh.cache_key          "device_mesh((2,), ('cluster_x',), (0, 1), (2,), ('cluster_x',))"
    mesh.type.mangle()      "device_mesh_" and 16 digits of the SHA-256 of that text

Two values of one class are one value if their `cache_key` is the same; Triton's cache keys go by the `cache_key` too.
"""

from __future__ import annotations

import hashlib

import triton.language.core as tl


class CompileTimeValue(tl.base_value):
    """Base of such values. A subclass gives `cache_key`, a text that holds all its content."""

    cache_key: str

    def __setattr__(self, name: str, value) -> None:
        """Set an attribute once: a value is hashed, and kernels are compiled for it, so it cannot change."""
        if name in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be changed; make another {type(self).__name__}")
        super().__setattr__(name, value)

    @property
    def type(self) -> CompileTimeType:
        return CompileTimeType(self)

    def _flatten_ir(self, handles: list) -> None:
        """Add no handle: there is nothing in the IR."""

    def _set_name(self, builder, name: str) -> None:
        """Set no name: there is nothing in the IR."""

    def __str__(self) -> str:
        return self.cache_key

    def described(self) -> str:
        """The value in a message about types, where two values must not look alike."""
        return repr(self)

    def __eq__(self, other) -> bool:
        return self.cache_key == other.cache_key if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.cache_key)


class CompileTimeType(tl.base_type):
    """The type of one such value: no other value has it."""

    def __init__(self, value: CompileTimeValue) -> None:
        self.value = value

    def _flatten_ir_types(self, builder, out: list) -> None:
        """Add no type: there is nothing in the IR."""

    def _unflatten_ir(self, handles: list, cursor: int):
        return self.value, cursor

    def mangle(self) -> str:
        return f"{type(self.value).__name__}_{hashlib.sha256(self.value.cache_key.encode()).hexdigest()[:16]}"

    def __eq__(self, other) -> bool:
        return type(other) is type(self) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return self.value.described()
