"""Helpers of warp-specialised kernels, written in the kernel language.

Input: the arguments of a kernel's call, run-time scalars or ints. Output: values of the kernel; the ops are those of
the arithmetic. For example:

    buf, phase = get_bufidx_phase(5, 2)      slot 1, phase 0: the third use of slot 1
"""

import triton


@triton.jit
def get_bufidx_phase(accum_cnt, NUM_BUFFERS):
    """Slot and phase of the `accum_cnt`-th use of a ring of `NUM_BUFFERS` buffers.

    Gives (accum_cnt % NUM_BUFFERS, (accum_cnt // NUM_BUFFERS) & 1).
    """
    buf_idx = accum_cnt % NUM_BUFFERS
    phase = (accum_cnt // NUM_BUFFERS) & 1
    return buf_idx, phase
