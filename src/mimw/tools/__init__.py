"""The tools that look at a launch without being part of one: checks, predictions, explanations.

Input: a kernel, a grid and arguments, as a launch has them. Output: a report. For example:

    check.py        `mimw.check`: many interleavings of one launch, by the runs of `search/`
    timing/         `mimw.predict` and `mimw.profile`: its timeline
    explain/        `mimw.explain`: what became of the kernel
"""
