"""The TLE surface: the public names of TLE, one file per family. Import it as `mimw.tle`.

TLE-Lite (tiles, scans, pipes) and the distributed words are here, TLE-Struct for GPUs is in `gpu`. A word that TLX has too
records the same op.
"""

from . import gpu
from .distributed import distributed_barrier
from .dot import distributed_dot
from .load import load
from .mesh import device_mesh
from .remote import remote
from .reshard import reshard
from .shard_id import shard_id
from .sharding import B, P, S, ShardedTensor, ShardingSpec, make_sharded_tensor, sharding

__all__ = ["B", "P", "S", "ShardedTensor", "ShardingSpec", "device_mesh", "distributed_barrier", "distributed_dot", "gpu", "load",
           "make_sharded_tensor", "remote", "reshard", "shard_id", "sharding"]
