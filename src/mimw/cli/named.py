"""`FILE:FUNCTION` and `FILE:KERNEL` under `run` and `simulate`: the same launch as under every other command.

Input: the name and the words behind it. Output: the launch, made; or what the function does, if it launches by itself:

    mimw simulate add.py:case                           case() returns (kernel, grid, args, meta)
    mimw simulate add.py:add --args 'fp32[128]' 'fp32[128]' 128 BLOCK=128
    mimw run add.py:main                                main() launches

A function that does neither is refused: nothing would have been done.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from .errors import CommandError
from .load import called, is_launch, load, names_launch


def is_name(script: str | None) -> bool:
    """True if a script's name is FILE:FUNCTION or MODULE:FUNCTION."""
    return bool(script) and ":" in script


def launched(options: Namespace) -> Any:
    """Make the launch that `options.script` names, with `options.rest` as its words; what the launch returns, or None if the
    function has launched by itself. CommandError if there was no launch."""
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
            return _launch(*case)
        if prepared.launches == before and not _on_gpu_since(found):
            raise CommandError(f"{name}() launched nothing, and returned no launch: it should do so, or return (kernel, "
                               "grid, args, meta).")
        return None
    return _launch(*launch_of(_words(options)))


def _words(options: Namespace) -> Namespace:
    """The words behind a kernel, read as `mimw check` reads its own."""
    from .check import add_launch_arguments

    parser = ArgumentParser(prog=f"mimw {options.command} {options.script}")
    add_launch_arguments(parser)
    words = parser.parse_args([options.script, *options.rest])
    words.gpus = words.gpus or getattr(options, "gpus", None)
    return words


def _launch(kernel, grid, args, meta) -> Any:
    from ..runtime.simulating import simulating
    from .on_gpu import on_gpu

    if not simulating():
        args, meta = [on_gpu(value) for value in args], {name: on_gpu(value) for name, value in meta.items()}
    return kernel[grid](*args, **meta)


def _on_gpu_since(function: Any) -> bool:
    """True if a kernel that the function's module knows has been launched on a GPU: it then has a compiled kernel."""
    kernels = (value for value in function.__globals__.values() if hasattr(value, "device_caches"))
    return any(cache[0] for kernel in kernels for cache in kernel.device_caches.values())
