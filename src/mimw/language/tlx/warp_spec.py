"""Helpers of warp-specialised kernels, written in the kernel language."""

import triton


@triton.jit
def get_bufidx_phase(accum_cnt, NUM_BUFFERS):
    """Slot and phase of the `accum_cnt`-th use of a ring of `NUM_BUFFERS` buffers.

    Gives (accum_cnt % NUM_BUFFERS, (accum_cnt // NUM_BUFFERS) & 1).
    """
    buf_idx = accum_cnt % NUM_BUFFERS
    phase = (accum_cnt // NUM_BUFFERS) & 1
    return buf_idx, phase
