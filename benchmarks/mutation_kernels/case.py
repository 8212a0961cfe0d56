"""One kernel that is mutated, and what the others of this folder make theirs of.

    Case("Softmax, ring", "src/mimw/kernels/softmax/kernel.py", make)       make() gives (kernel, grid, args, meta)
    tutorial("06_attention").attention                                      a kernel of tutorials/
    a, b = numbers((64, 32), (32, 64))                                      random fp16 numbers
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TUTORIALS = Path(__file__).parents[2] / "tutorials"


@dataclass(frozen=True)
class Case:
    """`file` is where the kernel stands, from the root of the repository; `make()` gives (kernel, grid, args, meta); `target` is
    the chip that it is for.

    `settled(arrays)` is what is one and the same for all right results, of the arrays among the args: by default they themselves.
    """

    name: str
    file: str
    make: Callable[[], tuple]
    settled: Callable[[list[np.ndarray]], list[np.ndarray]] = list
    target: str = "sm_90a"


def tutorial(stem: str):
    """The module of one tutorial."""
    name = f"tutorial_{stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TUTORIALS / f"{stem}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def numbers(*shapes, dtype=np.float16):
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]
