"""The protocol between words and the recorder: the requests that a word may make of the object that records its kernel.

    op = semantic.builder.record("barrier_wait", barrier, phase)       one op of the table at the current source line
    semantic.builder.site                                              kernel.py:17, for an error
    semantic.builder.launch_facts = semantic.builder.launch_facts.with_mesh(4)

Input: the calls of a word. Output: a draft op, of which the word takes the results. `compiler.frontend.recorder` implements the
class; `language` knows nothing else of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from .core import Task
from .launch_facts import LaunchFacts
from .mlir_text import MlirFunction, MlirText
from .site import Site
from .types import Type


class Draft(Protocol):
    """An op that was recorded and is not frozen yet."""

    results: list[Any]

    def set_attr(self, name: str, value: Any) -> None:
        """Note one more attribute of the op."""


class Recording(ABC):
    """A kernel while it is recorded. Besides, it has the methods of Triton's `ir.builder` that Triton's semantics call.

    `options` are the backend's (num_warps, arch, ...); `task` is the task whose body is being recorded, None outside of all.
    `uses_words` becomes true once a word of ours is called. `launch_facts` are replaced by words that ask something of the launch.
    """

    options: Any
    task: Task | None
    uses_words: bool
    launch_facts: LaunchFacts

    @property
    @abstractmethod
    def site(self) -> Site:
        """The source position that the next op will carry."""

    @abstractmethod
    def record(self, name: str, *args, regions: int = 0, **attrs) -> Draft:
        """Record one op of the table; the type rule gives its results."""

    @abstractmethod
    def maker(self, handle) -> Draft:
        """The op that gives the value of a handle, such as one that Triton's semantics have recorded."""

    @abstractmethod
    def read_mlir(self, text: MlirText, function: MlirFunction) -> tuple[tuple[frozenset[str], ...], bool]:
        """The effects of a function in MLIR text on the memory of each of its parameters, "read" and "write", and True if the
        function only computes. Raises `MlirError`."""

    @abstractmethod
    def constant(self, value, type_: Type):
        """Record a constant: its handle."""
