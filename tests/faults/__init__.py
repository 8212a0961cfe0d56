"""Faults of several GPUs, made on purpose: a rank is killed, is late, differs; each ends in the right result or in a named error.

    python -m tests.faults                  on two GPUs; on the CPU, what means something there is in tests/distributed/

Input: nothing. Output: a line for each fault.
"""
