"""The TLE surface: the public names of TLE, one file per family. Import it as `mimw.tle`.

TLE-Lite (tiles, scans, pipes) and the distributed words are here, TLE-Struct for GPUs is in `gpu`. A word that TLX has too
records the same op.
"""

from . import gpu
from .cumsum import cumsum
from .distributed import distributed_barrier
from .dot import distributed_dot
from .load import load
from .mesh import device_mesh
from .remote import remote
from .reshard import reshard
from .shard_id import shard_id
from .sharding import B, P, S, ShardedTensor, ShardingSpec, make_sharded_tensor, sharding
from .tiles import extract_tile, insert_tile

__all__ = ["B", "P", "S", "ShardedTensor", "ShardingSpec", "cumsum", "device_mesh", "distributed_barrier", "distributed_dot",
           "extract_tile", "gpu", "insert_tile", "load", "make_sharded_tensor", "remote", "reshard", "shard_id", "sharding"]
