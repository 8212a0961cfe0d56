"""Common to all words: the decorator that makes a function callable in a kernel, and the base of values and types.

Input: a function, and the arguments of a kernel's call of the function. Output: a builtin for Triton's code generator,
by which the function gets its arguments. For example:

    @word
    def barrier_wait(bar, phase, pred=None, _semantic=None)      tlx.barrier_wait(..) in a kernel; OutsideKernel outside

Triton's code generator calls a word like one of Triton's own builtins. The decorator refuses calls from outside a
kernel, takes compile-time arguments out of their `constexpr` wrappers once, and checks that arguments annotated
`tl.constexpr` are known at compile time.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import triton.language.core as tl

from ..errors import NotYet, OutsideKernel
from ..ir import Recording
from ..target import TARGETS, Target
from .binding import all_by_name, binder
from .refuse import inside, refuse

HIDDEN = ("_semantic", "_generator")
R = TypeVar("R")


def unwrap(value: Any) -> Any:
    """`value` without `constexpr` wrappers, also inside lists and tuples; Triton's tuples become Python's."""
    if isinstance(value, tl.constexpr):
        return unwrap(value.value)
    if isinstance(value, list):
        return [unwrap(item) for item in value]
    if isinstance(value, (tuple, tl.tuple)):
        return tuple(unwrap(item) for item in value)
    return value


def compile_time(word_name: str, parameter: str, value: Any) -> Any:
    """`value` unwrapped. ValueError if it, or anything in it, is only known at run time."""
    value = unwrap(value)
    for item in value if isinstance(value, (list, tuple)) else (value, ):
        if isinstance(item, tl.base_value):
            refuse(ValueError, f"{word_name}: `{parameter}` must be a constexpr, but it is the run-time value {item}. "
                               f"Write the literal or tl.constexpr(2), or annotate the name where it is assigned "
                               f"(`{parameter}: tl.constexpr = 2`): a plain assignment makes a run-time scalar.")
    return value


def check_in_kernel(name: str, semantic: Any) -> None:
    """OutsideKernel unless a kernel is being compiled by mimw."""
    if semantic is None:
        raise OutsideKernel(f"{name} is called outside a kernel. Did you forget to add @mimw.jit?")
    if not isinstance(semantic.builder, Recording):
        raise OutsideKernel(f"{name} is called in a kernel that is compiled by triton.jit; decorate it with @mimw.jit")
    semantic.builder.uses_words = True


def _family(module: str) -> str:
    """The name under which users import the words that `module` defines."""
    path = module.split(".")
    return "tlx" if "tle" not in path else next((f"tle.{family}" for family in ("gpu", "dsa", "raw") if family in path), "tle")


def word(fn: Callable[..., R]) -> Callable[..., R]:
    """Make `fn` callable in a kernel as `tlx.<its name>`, or `tle.`, `tle.gpu.`, `tle.dsa.`, `tle.raw.` for words of those
    namespaces.

    args:  fn   - takes its arguments unwrapped; those annotated `tl.constexpr` are known at compile time; `_semantic` is
                  Triton's semantic over our recorder, `_generator` (if declared) the code generator
    errors:     the word raises OutsideKernel outside a kernel, TypeError for arguments that do not bind, and ValueError for
                a run-time value where a constexpr is needed
    """
    signature = inspect.signature(fn)
    visible = signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in HIDDEN])
    constant = {p.name for p in visible.parameters.values() if p.annotation == "tl.constexpr"}
    bind, by_name, takes_generator = binder(visible), all_by_name(visible), "_generator" in signature.parameters
    name = f"{_family(fn.__module__)}.{fn.__name__}"
    usage = name + str(inspect.Signature([p.replace(annotation=p.empty, default=_shown(p.default)) for p in
                                          visible.parameters.values()]))

    @functools.wraps(fn)
    def wrapper(*args, _semantic=None, _generator=None, **kwargs):
        check_in_kernel(name, _semantic)
        try:
            given = bind(args, kwargs)
        except TypeError as error:
            raise TypeError(f"{usage}: {error}") from None
        with inside(_semantic.builder):
            for parameter, value in given.items():
                given[parameter] = compile_time(name, parameter, value) if parameter in constant else unwrap(value)
            hidden = dict(_semantic=_semantic, _generator=_generator) if takes_generator else dict(_semantic=_semantic)
            if by_name:
                return fn(**given, **hidden)
            bound = inspect.BoundArguments(visible, given)
            return fn(*bound.args, **bound.kwargs, **hidden)

    setattr(wrapper, tl.TRITON_BUILTIN, True)
    wrapper.signature = signature       # Triton's code generator reads it; Python, editors and readers see what an author writes
    wrapper.__signature__ = visible
    return wrapper


class _Shown:
    """The default of a parameter in a message: as a user writes it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(default: Any) -> Any:
    if isinstance(default, enum.Enum):
        return _Shown(f"{_family(type(default).__module__)}.{type(default).__name__}.{default.name}")
    return _Shown(f"tl.{repr(default).rpartition('.')[2]}") if isinstance(default, tl.dtype) else default


def host_constructible(cls):
    """Let kernels name the class `cls` as a global and call it; its constructor unwraps its own arguments."""
    setattr(cls, tl.TRITON_BUILTIN, True)
    own = vars(cls).get("__init__")
    whole = inspect.signature(own) if inspect.isfunction(own) else None
    if whole is not None and not set(HIDDEN).isdisjoint(whole.parameters):      # as of a word: two readers, two signatures
        _, *parameters = whole.parameters.values()
        cls.signature = inspect.Signature(parameters)
        cls.__signature__ = inspect.Signature([p for p in parameters if p.name not in HIDDEN])
    return cls


def host_method(fn):
    """Let kernels call `fn`, a class method of a host-constructible class, with compile-time arguments."""

    @functools.wraps(fn)
    def wrapper(cls, *args, **kwargs):
        return fn(cls, *unwrap(args), **{name: unwrap(value) for name, value in kwargs.items()})

    setattr(wrapper, tl.TRITON_BUILTIN, True)
    return wrapper


def not_yet(semantic: Any, what: str, hint: str = "") -> NotYet:
    """The error for `what`, a word or one of its arguments, at the user's line."""
    return NotYet(f"not yet: tlx.{what} is not offered by this release", semantic.builder.site, hint=hint)


def capability(semantic: Any) -> int | None:
    """Compute capability of the target (90 for `sm_90a`), or None if it is not an NVIDIA chip."""
    match = re.fullmatch(r"(?:sm_?)?(\d+)[a-z]?", str(semantic.builder.options.arch))
    return int(match[1]) if match else None


def chip_of(semantic: Any) -> Target | None:
    """The chip that the kernel is recorded for, if it is one of NVIDIA's that are known here."""
    number = capability(semantic)
    return next((one for one in TARGETS.values() if one.arch == number), None)


def maps(feature: str, semantic: Any) -> bool:
    """True if the words of a feature become others on the chip that the kernel is recorded for, which lacks it."""
    chip = target_of(semantic)
    return chip is not None and feature in chip.mapped


def target_of(semantic: Any) -> Target | None:
    """The chip that the kernel is recorded for, of whatever vendor, if it is one that is known here."""
    return chip_of(semantic) or TARGETS.get(str(semantic.builder.options.arch))


def tensor_memory_columns(semantic: Any) -> int:
    """Columns of tensor memory of the target: 512 on sm_100a and sm_103a, 0 on all others, sm_120a among them."""
    chip = chip_of(semantic)
    return chip.tensor_memory_columns if chip else 0


class HandleValue(tl.base_value):
    """A value of ours that lives in the IR as one handle; `type` says all else of it. A class of values names the class of their
    types: `class mbarrier(HandleValue, of=mbarrier_type)`; a type then makes its values by `type.value(handle)`."""

    def __init_subclass__(cls, of: type[HandleType] | None = None, **keywords):
        super().__init_subclass__(**keywords)
        if of is not None:
            of.values = cls

    def __init__(self, handle: Any, type_: HandleType | None = None):
        super().__init__()
        self.handle = handle
        if type_ is not None:
            self.type = type_

    def _set_name(self, builder, name: str) -> None:
        self.handle.set_loc(builder.create_name_loc(name, self.handle.get_loc()))

    def _flatten_ir(self, handles: list) -> None:
        handles.append(self.handle)

    def __str__(self) -> str:
        return str(self.type)


class HandleType(tl.base_type):
    """The type of a `HandleValue`. Two types are equal if they have one class and one `mangle()`."""

    values: type[HandleValue]

    def to_ir(self, builder):
        """The type in `mimw.ir`."""
        raise NotYet(f"not yet: values of the type {self} are not offered by this release")

    def value(self, handle) -> HandleValue:
        """A value of this type around `handle`."""
        value = self.values.__new__(self.values)
        HandleValue.__init__(value, handle, self)
        return value

    def _flatten_ir_types(self, builder, out: list) -> None:
        out.append(self.to_ir(builder))

    def _unflatten_ir(self, handles: list, cursor: int):
        return self.value(handles[cursor]), cursor + 1

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self.mangle() == other.mangle()

    def __hash__(self) -> int:
        return hash((type(self), self.mangle()))

    def __repr__(self) -> str:
        return str(self)


def identifier(value: Any) -> str:
    """`value` spelled with letters, digits and underscores only, for `mangle()`."""
    return re.sub(r"\W+", "_", str(value)).strip("_")
