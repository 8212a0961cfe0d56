"""MIMW_CHECK=1: each new specialisation of a kernel is checked once, by the sampled form of `mimw.check`, before its first launch.

Input: a launch, on a GPU or simulated. Output: nothing, or `CheckFailed` with the report, and nothing was launched. For example:

    MIMW_CHECK=1 python train.py        a racy kernel ends in CheckFailed at its first launch, not in wrong numbers
    mimw run --check train.py           the same

What is run: the first, the last and one more cluster under three interleavings, tile data left out where it decides nothing; stores
of different clusters are compared for the whole grid, by their addresses. Tensors on a GPU have stand-ins in the host's memory:
copies, and zeros for floats of over 64 MB, which a kernel computes with and does not go by. What shares memory does so there.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import is_dataclass, replace
from math import prod
from typing import Any

from ..compiler.pipeline import chip_of, seen_by
from ..compiler.triton_port.codegen import CompilationError
from ..compiler.triton_port.runtime import TensorDescriptor, active_target
from ..errors import CheckFailed, KernelWarning, LaunchError, SimulatorMisuse
from ..ir.tuples import like
from ..runtime.call import Given
from ..runtime.simulating import simulating
from ..target import Target, wanted

SEEDS, SECONDS = 3, 30.0    # interleavings; after so long no further one begins
FEW = 16                    # CTAs that are all run where they wait for each other, so that a part of them shows nothing
COPIED = 64 << 20           # bytes of floats

_found: dict[tuple, CheckFailed | None] = {}    # by specialisation, of this process


def check_launch(kernel, grid, args: tuple, keywords: dict[str, Any]) -> None:
    """Raise `CheckFailed` if the kernel is wrong as this launch specialises it. Looked at once for each specialisation and process;
    a launch of one that was found wrong is refused again. What cannot be checked is launched, with a warning that says why."""
    chip = wanted() if simulating() else chip_of(active_target())
    try:
        key = _key(kernel, args, keywords, chip)
    except Exception:       # the launch itself says what is wrong with its arguments
        return
    if key not in _found:
        _found[key] = _failure(kernel, grid, args, keywords, chip)
    if (failure := _found[key]) is not None:
        raise CheckFailed(failure.kernel, failure.report)


def _key(kernel, args, keywords, chip: Target) -> tuple:
    from ..runtime.simulate import specialised
    found = specialised(Given(kernel, keywords), args, {}, chip)[0]
    constants = sorted((path, getattr(value, "cache_key", None) or repr(value)) for path, value in found.constants.items())
    seen = seen_by(found.fn, found.constants)
    return (seen.digest, seen.native_key(), chip.name, repr(found.signature), repr(constants), repr(sorted(found.attrs)),
            repr(sorted(found.options.items(), key=str)))


def _failure(kernel, grid, args, keywords, chip: Target) -> CheckFailed | None:
    try:
        storages: dict[int, Any] = {}
        args = tuple(on_host(value, storages) for value in args)
        keywords = {name: on_host(value, storages) for name, value in keywords.items()}
        report = _checked(Given(kernel, keywords), grid, args, chip)
    except (CompilationError, LaunchError):
        return None         # as the launch itself will say
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        warnings.warn(f"MIMW_CHECK: {kernel.__name__} is launched unchecked: {why}", KernelWarning, stacklevel=5)
        return None
    return None if report.ok else CheckFailed(kernel.__name__, report)


def _checked(kernel: Given, grid, args: tuple, chip: Target):
    """The report. CTAs that wait for each other, or draw their work from a counter, run all, if they are few."""
    from ..runtime.simulate import prepare
    from .check import check
    options = dict(target=chip.name, seeds=SEEDS, shrink=False, rounds=False, jobs=1, time_limit=SECONDS, protocol=True)
    try:
        return check(kernel, grid, *args, ctas="sample", **options)
    except SimulatorMisuse:
        if prod(prepare(kernel, grid, args, {}, chip.name).grid) > FEW:
            raise
        return check(kernel, grid, *args, **options)


def on_host(value: Any, storages: dict[int, Any]) -> Any:
    """An argument with its tensors in the host's memory; `storages` are the stand-ins of GPU memory so far, by address."""
    if isinstance(value, (tuple, list)):
        return like(value, (on_host(item, storages) for item in value))
    if isinstance(value, TensorDescriptor) or is_dataclass(value) and hasattr(value, "block_shape"):     # Triton's, or Gluon's
        base = on_host(value.base, storages)
        return value if base is value.base else replace(value, base=base)
    device = getattr(value, "device", None)
    return value if getattr(device, "type", "cpu") == "cpu" or not hasattr(value, "data_ptr") else stand_in(value, storages)


def stand_in(tensor: Any, storages: dict[int, Any]) -> Any:
    """A torch tensor of the same elements, strides and neighbours in the host's memory."""
    torch = sys.modules["torch"]
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise SimulatorMisuse("its first launch is captured in a CUDA graph, which no copy may be part of",
                              hint="launch it once before")
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in storages:
        decides = storage.nbytes() <= COPIED or not tensor.is_floating_point()
        host = torch.zeros(0 if decides else storage.nbytes(), dtype=torch.uint8).untyped_storage()     # zeros take no memory yet
        storages[storage.data_ptr()] = storage.cpu().clone() if decides else host
    found = torch.empty(0, dtype=tensor.dtype)
    return found.set_(storages[storage.data_ptr()], tensor.storage_offset(), tensor.size(), tensor.stride())
