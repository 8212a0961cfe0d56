"""The parts that run: CTAs, tasks and operations in flight, the scheduler that interleaves them, and the errors of a
stuck launch.

Input: a program with its handlers. Output: a run step by step, or an error such as `Deadlock`. For example:

    @handles("alloc_barriers")                      the handler of an op, in `words`, for the table of this wing
"""
