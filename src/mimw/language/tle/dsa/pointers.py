"""`tle.dsa.local_ptr`: pointers into a buffer, which Triton's own loads, stores and atomics take.

Input: a buffer of a kernel's call and the indices of elements. Output: the op `local_ptr`, as of `tle.gpu.local_ptr`. For example:

    tl.load(tle.dsa.local_ptr(a, [at]))         %p = local_ptr %a, [%at], [50], pointee=fp32;  %t = load %p
"""

from __future__ import annotations

from ...core import word
from ...refuse import refuse
from ...tlx.types import buffered_tensor
from ..gpu.pointers import pointers_into
from ..remote import remote_pointer
from ..remote_buffer import remote_buffer
from .boxes import exact_shapes
from .buffers import buffer as dsa_buffer
from .buffers import is_buffer, stored_type


@word
def local_ptr(buffer, indices=None, _semantic=None):
    """Pointers to elements of a buffer.

    args:      buffer  - a buffer of `tle.dsa`, a subview of one, or one that is `tle.remote`
               indices - (opt) one entry a dimension: integer tensors or scalars; without, every element. They broadcast as
                         numpy's do, as by `tle.gpu.local_ptr`
    returns:   a tile of pointers of the indices' shape (of the buffer's, without indices), or a scalar pointer. They are
               Triton pointers: add to them (row-major, in elements), broadcast, carry them through loops, pass them on.
    orders:    program order, with the other calls on the buffer as well
    not:       checked at run time: an index out of range is undefined (the simulator refuses it)
    errors:    ValueError, also for a buffer of `tle.gpu` or of TLX; on a GPU for a whole buffer whose extents are no powers of two
    lowers to: as `tle.gpu.local_ptr`
    """
    if isinstance(buffer, remote_buffer):
        return remote_pointer(local_ptr(buffer.buffer, indices, _semantic=_semantic), buffer.rank, _semantic)
    if isinstance(buffer, buffered_tensor):
        refuse(ValueError, f"tle.dsa.local_ptr: `buffer` is no buffer of tle.dsa, but {buffer}", mend="tle.gpu.local_ptr takes it")
    local: dsa_buffer = is_buffer("local_ptr", "buffer", buffer)
    if indices is None:
        exact_shapes("local_ptr", local.shape, _semantic)
    return pointers_into("tle.dsa.local_ptr", local, local.shape, stored_type(local.dtype), indices, _semantic)
