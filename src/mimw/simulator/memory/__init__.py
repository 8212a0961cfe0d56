"""The places that hold data: global memory, buffers and their views, mbarriers, tensors behind descriptors, and the
same in other CTAs.

Input: reads, writes and arrivals of handlers. Output: numpy values, completed phases, or an error such as
`OutOfBounds`. For example:

    barrier.arrive(1, task, op, size=8192)          one arrival; the phase waits for 8192 bytes
"""
