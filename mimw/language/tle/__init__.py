"""The TLE surface: the public names of TLE, one file per family. Import it as `mimw.tle`.

TLE-Lite (tiles, scans, pipes) and the distributed words are here, TLE-Struct for GPUs is in `gpu`. A word that TLX has too
records the same op.
"""

from . import gpu
from .cumsum import cumsum
from .load import load
from .tiles import extract_tile, insert_tile

__all__ = ["cumsum", "extract_tile", "gpu", "insert_tile", "load"]
