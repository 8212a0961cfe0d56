"""`--gpus N`: the launch of a command on N simulated GPUs.

Input: the option, and arguments of a kernel as `mimw check` reads them. Output: MIMW_GPUS, by which a `mimw.World()` of a script
or a function knows how many it has; of arguments on the command line, what each rank gets. For example:

    mimw check exchange.py:kernel --gpus 2 --args symmetric:fp32[64] fp32[64] symmetric:i32[1] world 64

gives both ranks an array that the other reaches, one that it does not, a signal, their tables, and 64.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from .errors import CommandError

WORLD, SYMMETRIC = "world", "symmetric:"


@dataclass(frozen=True)
class Named:
    """An argument that only a launch on several GPUs has: the world, or a symmetric array like `array`."""

    text: str
    array: Any = None


def add_gpus(parser: ArgumentParser) -> None:
    """The option."""
    parser.add_argument("--gpus", type=int, metavar="N",
                        help="the number of simulated GPUs of a mimw.World() without a number (docs/DISTRIBUTED.md)")


def several(options: Namespace) -> None:
    """Let worlds of this process, and of those that it starts, have so many GPUs."""
    if options.gpus is None:
        return
    if options.gpus < 1:
        raise CommandError(f"--gpus {options.gpus}: give a number of 1 or more.")
    os.environ["MIMW_GPUS"] = str(options.gpus)


def on_ranks(args: list, meta: dict[str, Any], gpus: int) -> tuple[list, dict[str, Any]]:
    """Arguments of a kernel, for `gpus` ranks."""
    from ..ir.world import World

    world = World(gpus)
    return [_on_ranks(arg, world) for arg in args], {name: _on_ranks(value, world) for name, value in meta.items()}


def _on_ranks(value: Any, world: Any) -> Any:
    import numpy as np

    if isinstance(value, Named):
        if value.array is None:
            return world
        if not isinstance(value.array, np.ndarray):
            raise CommandError(f"--args {value.text!r}: an array can be symmetric, as symmetric:fp16[64,64].")
        arrays = world.symmetric(value.array.shape, value.array.dtype)
        for array in arrays:
            array[...] = value.array
        return arrays
    if isinstance(value, np.ndarray):
        return world.each(lambda rank: value.copy())
    if hasattr(value, "block_shape"):
        from ..runtime.host import TensorDescriptor
        return world.each(lambda rank: TensorDescriptor.from_tensor(value.base.array.copy(), value.block_shape))
    return value
