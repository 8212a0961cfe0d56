"""`FILE:FUNCTION` and `FILE:KERNEL` under `run` and `simulate`: the same launch as under every other command.

Input: the name and the words behind it. Output: the launch, made and, if a case expects results, compared with them; or what the
function does, if it launches by itself:

    mimw simulate add.py:case                           case() returns (kernel, grid, args, meta)
    mimw simulate add.py:add --args 'fp32[128]' 'fp32[128]' 128 BLOCK=128
    mimw run add.py:main                                main() launches

A function that does neither is refused: nothing would have been done.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from typing import Any

from .errors import CommandError
from .load import called, is_launch, kernel_of, load, names_launch, with_results


def is_name(script: str | None) -> bool:
    """True if a script's name is FILE:FUNCTION or MODULE:FUNCTION."""
    return bool(script) and ":" in script


@dataclass(frozen=True)
class Made:
    """A launch: what it returned, None if a function has launched by itself, and what is known of its results, "" for such a
    function."""

    run: Any = None
    results: str = ""


def launched(options: Namespace) -> Made:
    """Make the launch that `options.script` names, with `options.rest` as its words. CommandError if there was no launch,
    WrongResult if an array is not what the case expects."""
    from ..runtime.case import case_of
    from ..runtime.simulate import prepared
    from .check import launch_of

    name = options.script
    found = load(name)
    if names_launch(found):
        if options.rest:
            mend = (f" Options of mimw stand before the name: mimw {options.command} {' '.join(options.rest)} {name}"
                    if options.rest[0].startswith("--") else "")
            raise CommandError(f"{name} is called without arguments; it takes no {' '.join(options.rest)}.{mend}")
        before = prepared.launches
        case = called(found, name)
        if is_launch(case):
            return _launch(case_of(case))
        if prepared.launches == before and not _on_gpu_since(found):
            raise CommandError(f"{name}() launched nothing, and returned no launch: it should do so, or return (kernel, "
                               f"grid, args, meta).{with_results(case)}")
        return Made()
    return _launch(case_of(launch_of(_words(options))))


def _words(options: Namespace) -> Namespace:
    """The words behind a kernel, read as `mimw check` reads its own."""
    from .check import add_launch_arguments

    parser = ArgumentParser(prog=f"mimw {options.command} {options.script}")
    add_launch_arguments(parser)
    words = parser.parse_args([options.script, *options.rest])
    words.gpus = words.gpus or getattr(options, "gpus", None)
    return words


def _launch(case: Any) -> Made:
    from ..runtime.case import expecting
    from ..runtime.simulating import simulating

    results = "results not compared" if case.expected is None else "results as expected"
    if not simulating():
        return Made(_on_gpu(case), results)
    kernel, grid, args, meta = case
    with expecting(case.expected, case.tolerance):
        return Made(kernel[grid](*args, **meta), results)


def _on_gpu(case: Any) -> Any:
    """Launch on a GPU, and compare there; who wrote a wrong element only the simulator knows."""
    from ..runtime.results import expectations, first_wrong, wrong_result
    from ..runtime.results.arrays import base_of
    from ..runtime.simulate import prepare
    from .on_gpu import on_gpu

    kernel, grid, args, meta = case
    there, chosen = [on_gpu(value) for value in args], {name: on_gpu(value) for name, value in meta.items()}
    if case.expected is None:
        return kernel[grid](*there, **chosen)
    wanted = expectations(case.expected, case.tolerance, prepare(kernel, grid, args, dict(meta)))     # of the arrays of numpy
    run = kernel[grid](*there, **chosen)
    given = dict(zip(kernel_of(kernel, "").arg_names, there)) | chosen
    wrong = first_wrong(replace(one, array=base_of(given[one.name])) for one in wanted)
    if wrong is not None:
        raise wrong_result(wrong)
    return run


def _on_gpu_since(function: Any) -> bool:
    """True if a kernel that the function's module knows has been launched on a GPU: it then has a compiled kernel."""
    kernels = (value for value in function.__globals__.values() if hasattr(value, "device_caches"))
    return any(cache[0] for kernel in kernels for cache in kernel.device_caches.values())
