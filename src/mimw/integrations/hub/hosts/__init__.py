"""The host's code of packages, a file each: it goes into the package as it is, so it imports torch and Python's own modules alone.

Input: what a user gives. Output: results, and the launch that fills them. For example, of swiglu.py:

    SCHEMA = "(Tensor gate, Tensor up) -> Tensor"
    outputs(gate, up)                   the results, unfilled; also the fake form
    call(forms, y, gate, up)            the launch
"""
