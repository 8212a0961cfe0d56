"""What `mimw.simulate`, `check`, `debug`, `predict`, `profile`, `compile`, `explain` and `orchestrate` have in common: their call.

Input: a function that takes a kernel, a grid and arguments. Output: the same function under the call that all eight share:

    @tool
    def simulate(kernel, grid, *args, target=None, num_warps=None, num_stages=None, seed=None, **meta): ...
    simulate(dropout, grid, x, y, num_warps=8, seed=7)      7 is `dropout`'s argument if it has a parameter `seed`

`resolve` finds the kernel's own function under autotuners and heuristics, `bound` its arguments by name.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from ..errors import ArgumentError, SimulatorMisuse, UnknownKeyword
from ..ir.callers import ends_at_call
from ..ir.plainly import plainly
from ..ir.site import site_of

_UNKNOWN = re.compile(r"Keyword argument (\w+) was specified but unrecognised")     # so says Triton
P = ParamSpec("P")
R = TypeVar("R")

SHARED = ("kernel", "grid", "args", "target", "num_warps", "num_stages", "meta")     # the parameters of every tool
LAUNCH_OPTIONS = ("num_warps", "num_stages")    # those of them that a launch takes, too
MEMORY = "memory"       # of a launch: arrays that only addresses lead to. For the simulator, a GPU reaches all of its memory


@dataclass(frozen=True)
class Given:
    """A kernel with some of its arguments or launch options, by name."""

    fn: Any
    given: dict[str, Any]


def tool(function: Callable[P, R]) -> Callable[P, R]:
    """`function(kernel, grid, *args, **keywords)` for kernels with parameters of any names: a keyword that `kernel` has a parameter
    for, and no positional argument, is the kernel's, also where `function` has one of that name. `num_warps` and `num_stages` reach
    `function` with the kernel, as options of the launch; None is the kernel's own, or Triton's. `memory`, which only the simulator
    needs, every tool takes.

    errors:    TypeError without a kernel or a grid; SimulatorMisuse for what is neither
    """
    own = {name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    name = f"mimw.{function.__name__}"

    @ends_at_call
    @functools.wraps(function)
    def call(*args, **keywords):
        args = list(args)
        for place in ("kernel", "grid")[len(args):]:
            if place not in keywords:
                raise ArgumentError(f"{name}(kernel, grid, *args, **meta) is called without `{place}`" + (
                    ": 1 to 3 ints, or a function of the arguments that gives them" if place == "grid" else ""))
            args.append(keywords.pop(place))
        kernel, grid, *args = args
        _check_grid(name, grid)
        theirs = (own | {"kernel", "grid"}).intersection(keywords, getattr(kernel, "arg_names", ())[len(args):])
        options = {option for option in LAUNCH_OPTIONS if option in keywords and option not in theirs}
        given = {one: keywords.pop(one) for one in sorted(theirs | options)}
        given = {one: value for one, value in given.items() if one in theirs or value is not None}
        if MEMORY not in own and MEMORY not in getattr(kernel, "arg_names", ()):
            keywords.pop(MEMORY, None)      # of those that run nothing on the simulator
        try:
            return function(Given(kernel, given) if given else kernel, grid, *args, **keywords)
        except UnknownKeyword as error:     # it may be meant as one of the tool's own
            unknown = _UNKNOWN.match(str(error))
            close = get_close_matches(unknown[1], own, n=1) if unknown and "did you mean" not in str(error) else []
            if not close:
                raise
            raise UnknownKeyword(f"{unknown[0]}; {name} has {close[0]}", *error.sites) from None

    return call


def _check_grid(name: str, grid: Any) -> None:
    """Refuse what surely is an argument of the kernel: an array, if not of three whole numbers or fewer, or a descriptor of one."""
    numbers = getattr(getattr(grid, "dtype", None), "kind", "") in ("i", "u") and grid.size <= 3
    if hasattr(grid, "dtype") and not numbers or hasattr(grid, "block_shape") or isinstance(grid, str):
        raise SimulatorMisuse(f"{name} got {_shown(grid)} where the grid belongs",
                              hint=f"call {name}(kernel, grid, *args): the grid is 1 to 3 ints, or a function that gives them")


def resolve(kernel, args, meta):
    """The JIT function under autotuners and heuristics, with the meta-parameters that these would supply."""
    while not hasattr(kernel, "params"):
        if isinstance(kernel, Given):
            meta = {**kernel.given, **meta}
        elif hasattr(kernel, "configs"):
            config = kernel.configs[0]
            meta = {**config.all_kwargs(), **meta}
            hooks = [config.pre_hook, kernel.pre_hook if kernel.user_defined_pre_hook else None]
            for hook in filter(None, hooks):
                hook({**dict(zip(kernel.arg_names, args)), **meta})
        elif hasattr(kernel, "values"):
            for name, heuristic in kernel.values.items():
                meta = {**meta, name: heuristic({**dict(zip(kernel.arg_names, args)), **meta})}
        if not hasattr(kernel, "fn"):
            raise SimulatorMisuse(f"{_shown(kernel)} is not a kernel", hint=_mend(kernel))
        kernel = kernel.fn
    return kernel, args, meta


def _mend(value: Any) -> str:
    if "__getitem__" in getattr(value, "__qualname__", ""):
        return "pass the kernel itself, and the grid after it: mimw.simulate(kernel, grid, *args), not kernel[grid]"
    if isinstance(value, str):
        return "pass the function itself; the commands of the terminal take FILE:KERNEL"
    if isinstance(value, (int, tuple, list)) or hasattr(value, "shape"):
        return "the kernel comes first: mimw.simulate(kernel, grid, *args)"
    if isinstance(value, FunctionType):
        return f"write `@mimw.jit` above `def {value.__name__}`, at {site_of(value)}"
    return "decorate the function with `mimw.jit`"


def _shown(value: Any) -> str:
    if "__getitem__" in getattr(value, "__qualname__", ""):
        return "kernel[grid], a launch,"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}" if hasattr(value, "block_shape") else plainly(repr(value))


def bound(fn, args, meta: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the JIT function `fn` by name, defaults included. ArgumentError names what is missing or too much."""
    try:
        found = fn.signature.bind(*args, **meta)
    except TypeError as error:
        raise _unbound(fn, args, meta, error) from None
    found.apply_defaults()
    return dict(found.arguments)


def _unbound(fn, args, meta: Mapping[str, Any], error: TypeError) -> ArgumentError:
    """The error of a launch whose arguments do not bind to the parameters of `fn`."""
    given = [*fn.arg_names[:len(args)], *(name for name in meta if name in fn.arg_names)]
    missing = [name for name, one in fn.signature.parameters.items() if one.default is one.empty and name not in given]
    said = f"{fn.__name__}({', '.join(fn.arg_names)}): {error}"
    if len(args) > len(fn.arg_names):
        return ArgumentError(f"{said}: {len(args)} are given, and it has {len(fn.arg_names)} parameters", site_of(fn.fn))
    constants = [name for name in missing if fn.params[fn.arg_names.index(name)].is_constexpr]
    wanted = " and ".join(f"`{name}=`" if name in constants else f"`{name}`" for name in missing)
    return ArgumentError(said, site_of(fn.fn), hint=f"give {wanted} at the launch, behind `kernel[grid](`" if missing else "")


def check_arguments(fn, args, keywords: Mapping[str, Any], error: Exception) -> None:
    """Raise what is wrong with the arguments of a launch of `fn` that has ended in `error`, Triton's, if they are wrong:
    ArgumentError for those that do not bind, UnknownKeyword for a keyword that neither the kernel nor a launch has."""
    if unknown := _UNKNOWN.search(str(next(iter(error.args), ""))):
        raise unknown_keyword(fn, unknown[1], LAUNCH_OPTIONS) from None
    if isinstance(error, TypeError):
        bound(fn, args, {name: value for name, value in keywords.items() if name in fn.arg_names})


def unknown_keyword(fn, name: str, options: Iterable[str]) -> UnknownKeyword:
    """The error for a keyword of a launch that neither the kernel has nor `options` are."""
    close = get_close_matches(name, [*fn.arg_names, *options], n=1)
    meant = f"; did you mean {close[0]}?" if close else f"; {fn.__name__} has the parameters {', '.join(fn.arg_names)}"
    return UnknownKeyword(f"Keyword argument {name} was specified but unrecognised{meant}", site_of(fn.fn))
