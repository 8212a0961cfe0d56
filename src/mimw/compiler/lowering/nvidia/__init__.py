"""Emissions that are PTX of ours and work on every chip of NVIDIA: registers of a thread, votes, shared memory by the thread.

Input: an op. Output: assembly in Triton's IR:

    clock64        mov.u64 $0, %clock64;
"""

from . import barriers, multimem, native, prefetch, printing, raw, registers, time_stamps, wait_stamps, whole_numbers, world  # noqa: F401
