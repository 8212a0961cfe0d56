"""Schedules: all interleavings of a launch that can matter, and programs with one thing changed.

Input: a function that runs the launch by a `Guide`, or a program. Output: the guide of each run, or the changed
program:

    for guide in explore(run, 100): ...             () first, then ((12, 1), ), ...
"""
