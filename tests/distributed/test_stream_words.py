"""What a stream is told to do with words: as the driver's structure has it."""

import ctypes

from mimw.distributed.stream_words import Step, sets, waits


def test_steps_are_the_driver_s_structure():
    """CUstreamBatchMemOpParams: a union of six words of 64 bits; type, address, value, flags, alias."""
    assert ctypes.sizeof(Step) == 48
    for step, kind, value in ((waits(0x123456789a, 7), 1, 7), (sets(0x123456789a, -1), 2, 0xffffffff)):
        words = (ctypes.c_uint64 * 6).from_buffer_copy(step)
        assert [words[0] & 0xffffffff, words[1], words[2], words[3] & 0xffffffff] == [kind, 0x123456789a, value, 0]
