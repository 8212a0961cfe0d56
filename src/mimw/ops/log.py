"""MIMW_LOG: a line for each new plan of an operator, and for each kind of call that is left to torch.

Input: MIMW_LOG=1 (stderr) or a file's path, read when `mimw.ops` is imported; or the logger itself. Output: lines of the logger
`mimw`, level INFO. For example, MIMW_LOG=1 python train.py:

    mimw: matmul(bf16 (4096, 4096), bf16 (4096, 4096)): gemm grid (132,) ...; measured row (4096, 4096, 4096, 2)
    mimw: attention(fp32 (1, 2, 5, 16), ..): plain_attention ...; not attention: q is fp32
    logging.getLogger("mimw").setLevel("INFO")              the same without the variable, by the handlers of the program

A call whose plan is there logs nothing, and asks nothing.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from torch import Tensor

LOGGER = logging.getLogger("mimw")
_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int32": "i32",
          "int64": "i64"}
_LEFT: set[tuple] = set()


def start(wanted: str | None) -> logging.Handler | None:
    """Send the logger's lines where MIMW_LOG says: none for None, an empty one or 0; stderr for 1; else the end of that file."""
    if wanted in (None, "", "0"):
        return None
    handler = logging.StreamHandler() if wanted == "1" else logging.FileHandler(wanted)
    handler.setFormatter(logging.Formatter("mimw: %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False        # the line is there already
    return handler


def log_plan(record: Any) -> None:
    """A line for a new plan (notes.py)."""
    if LOGGER.isEnabledFor(logging.INFO):
        said = [f"{shown_launch(one)}; {one.why}" for one in record.launches] or ["no kernel of its own"]
        said += [f"not {line}" for line in record.declined]
        LOGGER.info("%s(%s): %s", record.operator, shown(record.args), "; ".join(said))


def left_to_torch(name: str, why: str, args: tuple) -> None:
    """A line for a call that torch computes, once for arguments that look alike."""
    if LOGGER.isEnabledFor(logging.INFO) and (key := (name, why, shown(args))) not in _LEFT:
        _LEFT.add(key)
        LOGGER.info("%s(%s): by torch, as %s", name, key[2], why)


def shown(args: tuple) -> str:
    """The arguments of a call in a line: types and shapes of tensors, other values as they are."""
    return ", ".join(f"{shown_type(one)} {tuple(one.shape)}" if isinstance(one, Tensor) else str(one).removeprefix("torch.")
                     for one in args)


def shown_type(x: Tensor) -> str:
    """The short name of a tensor's type."""
    name = str(x.dtype).removeprefix("torch.")
    return _TYPES.get(name, name)


def shown_launch(launch: Any) -> str:
    """A launch in a line: kernel, grid, constants."""
    return f"{launch.package} grid {launch.grid}, {shown_options(launch.options)}"


def shown_options(options: dict[str, Any]) -> str:
    """Constants and options of a launch in a line: TILES(BM=128, ..), STAGES=4, num_warps=4."""
    return ", ".join(f"{name}{value}" if value[:1] == "(" else f"{name}={value}"
                     for name, value in ((name, _plain(value)) for name, value in options.items()))


def _plain(value: Any) -> str:
    fields = getattr(value, "_fields", None)
    if fields is not None:
        return f"({', '.join(f'{name}={_plain(one)}' for name, one in zip(fields, value))})"
    return str(getattr(value, "value", value))


start(os.environ.get("MIMW_LOG"))

__all__ = ["LOGGER", "left_to_torch", "log_plan", "shown", "shown_launch", "shown_options", "shown_type", "start"]
