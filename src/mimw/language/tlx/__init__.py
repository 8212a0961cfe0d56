"""The TLX surface: the public names of TLX, one file per family, with a list of its names. Import it as `mimw.tlx`.

Input: the call of a TLX word in a kernel. Output: ops of `mimw.ir`, values of `types`. For example:

    tlx.barrier_wait(full, 0)      barrier_wait %full, %0
"""

from .alias import *  # noqa: F403
from .alias import __all__ as _alias
from .async_task import *  # noqa: F403
from .async_task import __all__ as _async_task
from .barrier import *  # noqa: F403
from .barrier import __all__ as _barrier
from .blackwell import *  # noqa: F403
from .blackwell import __all__ as _blackwell
from .buffer_words import *  # noqa: F403
from .buffer_words import __all__ as _buffer_words
from .bulk import *  # noqa: F403
from .bulk import __all__ as _bulk
from .clc import *  # noqa: F403
from .clc import __all__ as _clc
from .cluster import *  # noqa: F403
from .cluster import __all__ as _cluster
from .copy import *  # noqa: F403
from .copy import __all__ as _copy
from .descriptors import *  # noqa: F403
from .descriptors import __all__ as _descriptors
from .gather import *  # noqa: F403
from .gather import __all__ as _gather
from .layouts import *  # noqa: F403
from .layouts import __all__ as _layouts
from .local_mem import *  # noqa: F403
from .local_mem import __all__ as _local_mem
from .matrix_cores import *  # noqa: F403
from .matrix_cores import __all__ as _matrix_cores
from .mma import *  # noqa: F403
from .mma import __all__ as _mma
from .multimem import *  # noqa: F403
from .multimem import __all__ as _multimem
from .mxfp8_utils import _to_mxfp8_block as _to_mxfp8_block
from .named_barrier import *  # noqa: F403
from .named_barrier import __all__ as _named_barrier
from .prefetch import *  # noqa: F403
from .prefetch import __all__ as _prefetch
from .register_layouts import *  # noqa: F403
from .register_layouts import __all__ as _register_layouts
from .require import *  # noqa: F403
from .require import __all__ as _require
from .retype import *  # noqa: F403
from .retype import __all__ as _retype
from .rounding import *  # noqa: F403
from .rounding import __all__ as _rounding
from .row_copies import *  # noqa: F403
from .row_copies import __all__ as _row_copies
from .scaled import *  # noqa: F403
from .scaled import __all__ as _scaled
from .scheduling import *  # noqa: F403
from .scheduling import __all__ as _scheduling
from .tcgen05 import *  # noqa: F403
from .tcgen05 import __all__ as _tcgen05
from .tdm import *  # noqa: F403
from .tdm import __all__ as _tdm
from .tma import *  # noqa: F403
from .tma import __all__ as _tma
from .tmem import *  # noqa: F403
from .tmem import __all__ as _tmem
from .types import *  # noqa: F403
from .types import __all__ as _types
from .utilities import *  # noqa: F403
from .utilities import __all__ as _utilities
from .warp_stages import *  # noqa: F403
from .warp_stages import __all__ as _warp_stages
from .world import *  # noqa: F403
from .world import __all__ as _world

__all__ = [
    *_alias, *_async_task, *_barrier, *_blackwell, *_buffer_words, *_bulk, *_clc, *_cluster, *_copy, *_descriptors, *_gather,
    *_layouts, *_local_mem, *_matrix_cores, *_mma, *_multimem, *_named_barrier, *_prefetch, *_register_layouts, *_require,
    *_retype, *_rounding, *_row_copies, *_scaled, *_scheduling, *_tcgen05, *_tdm, *_tma, *_tmem, *_types, *_utilities,
    *_warp_stages, *_world, "_to_mxfp8_block",
]
