"""Sessions of Triton's profiler proton where launches are simulated: a profile of predicted times, marked as such.

Input: the calls that a script makes of `triton.profiler`. Output: a table in place of the viewer's tree. For example:

    proton.start("matmul"); step(); proton.finalize()
    proton_viewer.print_tree(*proton_viewer.parse(["time/ms"], "matmul.hatchet"))
    matmul: predicted for NVIDIA H200, not measured; nothing is predicted of torch's work
      kernel                            launches   us each        ms   TFLOPS
      matmul [M=8192, N=8192, K=512]          10     104.1     1.041    660.1

From `start` to `finalize` no launch runs: the first of a kind is predicted, and one that repeats it is counted. A product of torch
that repeats the one before gives its result again. TRITON_PROTON_DISABLE=1 turns sessions off, as it does on a GPU.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ...compiler.triton_port.runtime import knobs
from ...report.table import table
from ...runtime.jit import MimwFunction
from ...runtime.simulate import instead
from .bench import Timed, timed

_LAUNCH = MimwFunction.run
_PRODUCTS = ("matmul", "mm", "bmm", "addmm")


@dataclass
class Row:
    """Launches of one kind in a session."""

    name: str
    timed: Timed
    flops: float = 0.0
    launches: int = 0


@dataclass
class Session:
    name: str
    active: bool = True
    rows: dict[tuple, Row] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = [row for row in self.rows.values() if row.launches]
        if not rows:
            return f"{self.name}: no kernel of mimw was launched while the session was active"
        chips = ", ".join(dict.fromkeys(row.timed.chip for row in rows if row.timed.chip))
        shown = [(row.name, row.launches, *_figures(row)) for row in rows]
        headers = ("kernel", "launches", "us each", "ms", "TFLOPS")
        unknown = [f"\n{row.name}: {row.timed}" for row in rows if math.isnan(row.timed.milliseconds)]
        return (f"{self.name}: predicted for {chips}, not measured; nothing is predicted of torch's work\n"
                f"{table(headers, shown, headers[1:])}{''.join(unknown)}")


def _figures(row: Row) -> tuple[str, str, str]:
    each = row.timed.milliseconds
    if math.isnan(each):
        return "-", "-", "-"
    return f"{1000 * each:,.1f}", f"{row.launches * each:,.3f}", f"{1e-9 * row.flops / each:,.1f}" if row.flops else "-"


_open: dict[int, Session] = {}          # sessions that are not finalized
_done: dict[str, Session] = {}          # those that are, by name
_standing = ExitStack()                 # what stands in place of launches while a session is open


def start(name: str | None = None, **_: Any) -> int | None:
    """A session; its number, as proton gives it."""
    if knobs.proton.disable:
        return None
    number = max(_open, default=-1) + 1
    if not _open:
        _standing.enter_context(_no_launches())
        sys.stdout.flush()
        print("mimw: proton: until the session is finalized, launches are predicted for its profile and not run, so their outputs "
              "stay as they were; TRITON_PROTON_DISABLE=1 runs them, without a profile", file=sys.stderr, flush=True)
    _open[number] = Session(name or "proton")
    return number


def activate(session: int | None = None) -> None:
    for one in _asked(session):
        one.active = True


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    for one in _asked(session):
        one.active = False


def finalize(session: int | None = None, output_format: str = "") -> None:
    """End sessions, which leave no file."""
    for number in list(_open) if session is None else [session] if session in _open else []:
        ended = _open.pop(number)
        _done[ended.name] = ended
    if not _open:
        _standing.close()


def profile(func: Callable | None = None, *, name: str | None = None, **options: Any) -> Callable:
    """A decorator: each call of the function is a session, which ends with it."""
    if func is None:
        return lambda function: profile(function, name=name, **options)

    @functools.wraps(func)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        session = start(name, **options)
        try:
            return func(*args, **kwargs)
        finally:
            if session is not None:
                finalize(session)

    return profiled


def _asked(number: int | None) -> list[Session]:
    return list(_open.values()) if number is None else [_open[number]] if number in _open else []


def parse(metrics: Any, filename: str, *_: Any, **__: Any) -> tuple[Session, Any]:
    """The session that proton would have written to the file, in place of the viewer's tree."""
    name = str(filename).removesuffix(".hatchet")
    if name not in _done:
        raise FileNotFoundError(f"no session {name!r} of proton was finalized in this process; where launches are simulated, none "
                                "writes a file")
    return _done[name], metrics


def print_tree(tree: Session, metrics: Any = None, *_: Any, **__: Any) -> None:
    print(tree, flush=True)


@contextmanager
def _no_launches() -> Iterator[None]:
    """Meanwhile launches of our kernels are noted in the open sessions, and products of torch are not computed again."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(MimwFunction, "run", _counted))
        token = instead.set(lambda launch, chip: None)      # of launches by other ways
        stack.callback(instead.reset, token)
        if "torch" in sys.modules:
            stack.enter_context(_kept_products(sys.modules["torch"]))
        yield


def _counted(kernel: MimwFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    """In place of `MimwFunction.run`."""
    if warmup:
        return _LAUNCH(kernel, *args, grid=grid, warmup=True, **kwargs)
    given = {**dict(zip(kernel.arg_names, args)), **kwargs}
    extents = tuple(grid(given)) if callable(grid) else grid
    key = (id(kernel), extents, *((name, _kind(value)) for name, value in sorted(given.items())))
    for session in _open.values():
        if key not in session.rows:
            session.rows[key] = _first(kernel, extents, given, lambda: _LAUNCH(kernel, *args, grid=grid, warmup=False, **kwargs))
        session.rows[key].launches += session.active
    return None


def _first(kernel: MimwFunction, grid: tuple, given: dict[str, Any], launch: Callable[[], Any]) -> Row:
    """The row of a launch: its predicted time, and the name and the work that the kernel's author gives it for profiles."""
    row = Row(kernel.__name__, timed(launch))
    if kernel.launch_metadata is not None:
        compiled = SimpleNamespace(name=kernel.__name__, num_warps=given.get("num_warps", 4), num_stages=given.get("num_stages", 3))
        said = kernel.launch_metadata(grid, compiled, given)
        row.name = said.get("name", row.name)
        row.flops = max((value for name, value in said.items() if name.startswith("flops")), default=0.0)
    return row


def _kind(value: Any) -> Any:
    """A value as far as a launch's time depends on it: of a tensor its type and shape."""
    if hasattr(value, "block_shape"):
        return (_kind(value.base), tuple(value.shape), tuple(value.strides), tuple(value.block_shape))
    if hasattr(value, "data_ptr"):
        return (str(value.dtype), tuple(value.shape), tuple(value.stride()))
    return repr(value)


def _kept_products(torch: Any):
    """A mode of torch in which a product of the same operands, in which nothing was written meanwhile, is the one before."""
    functions = {getattr(owner, name) for name in _PRODUCTS for owner in (torch, torch.Tensor)} | {torch.Tensor.__matmul__}

    def seen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return repr(value)
        return value.data_ptr(), value._version, value.dtype, value.shape, value.stride()

    class Kept(torch.overrides.TorchFunctionMode):
        # The key of a product, its operands, which so keep their memory, the product, and which state of it that is.
        last: tuple[Any, Any, Any, int] = (None, None, None, 0)

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func not in functions or kwargs:
                return func(*args, **(kwargs or {}))
            key = (func, *map(seen, args))
            if self.last[0] != key or self.last[2]._version != self.last[3]:
                product = func(*args)
                self.last = (key, args, product, product._version)
            return self.last[2]

    return Kept()
