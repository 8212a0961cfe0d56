"""The words of memory and barriers in one module: programs import `mem_ops` of TLX by that name.

Input: the files of the families. Output: the public names of these files, and no word besides. For example:

    from mimw.tlx.mem_ops import local_alloc      the same word as tlx.local_alloc
"""

from .alias import storage_alias_spec
from .barrier import *  # noqa: F403
from .barrier import __all__ as _barrier
from .bulk import *  # noqa: F403
from .bulk import __all__ as _bulk
from .cluster import *  # noqa: F403
from .cluster import __all__ as _cluster
from .copy import *  # noqa: F403
from .copy import __all__ as _copy
from .descriptors import *  # noqa: F403
from .descriptors import __all__ as _descriptors
from .gather import *  # noqa: F403
from .gather import __all__ as _gather
from .local_mem import *  # noqa: F403
from .local_mem import __all__ as _local_mem
from .named_barrier import *  # noqa: F403
from .named_barrier import __all__ as _named_barrier
from .prefetch import *  # noqa: F403
from .prefetch import __all__ as _prefetch
from .retype import *  # noqa: F403
from .retype import __all__ as _retype
from .tma import *  # noqa: F403
from .tma import __all__ as _tma
from .tmem import subslice, tmem_copy

__all__ = [
    "storage_alias_spec", "subslice", "tmem_copy", *_barrier, *_bulk, *_cluster, *_copy, *_descriptors, *_gather,
    *_local_mem, *_named_barrier, *_prefetch, *_retype, *_tma,
]
