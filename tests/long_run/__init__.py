"""Calls of all operators of mimw.ops with random shapes and options, each compared with torch on the same GPU.

Input: a seed and a number of launches. Output: rates, and the first wrong result with the line that repeats it:

    python -m tests.long_run --launches 100000 --seed 1
"""
