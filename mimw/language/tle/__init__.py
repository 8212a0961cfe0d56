"""The TLE surface: the public names of TLE, one file per family. Import it as `mimw.tle`.

TLE-Lite (tiles, scans, pipes) and the distributed words are here, TLE-Struct for GPUs is in `gpu`. A word that TLX has too
records the same op.
"""

from . import dsa, gpu, raw
from .cumsum import cumsum
from .load import load
from .missing import missing
from .pipe import pipe, pipe_reader, pipe_slot, pipe_value, pipe_wait_result, pipe_writer
from .tiles import extract_tile, insert_tile

call, hardware_constraint, jit = (missing(f"tle.{name}") for name in ("call", "hardware_constraint", "jit"))

__all__ = [
    "call", "cumsum", "dsa", "extract_tile", "gpu", "hardware_constraint", "insert_tile", "jit", "load", "pipe",
    "pipe_reader", "pipe_slot", "pipe_value", "pipe_wait_result", "pipe_writer", "raw",
]
