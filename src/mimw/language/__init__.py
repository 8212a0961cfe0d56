"""Words of kernels, with the values and the contracts of the words: the vocabulary of a kernel's author.

Input: the call of a word in a kernel. Output: ops of `mimw.ir`, recorded at the author's line. For example:

    tlx.barrier_wait(full, 0)      barrier_wait %full, %0
"""
