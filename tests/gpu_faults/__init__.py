"""What the hardware does where PTX or CUDA says that it faults, or leaves open what it does; docs/MEMORY_MODEL.md has the table.

    python -m tests.gpu_faults          on one GPU of Hopper or newer: a process for each row, a line for each, 0 if all are as said

Input: nothing. Output: lines. What the simulator says of the same launches is tested without a GPU: test_gpu_faults.py.
"""
