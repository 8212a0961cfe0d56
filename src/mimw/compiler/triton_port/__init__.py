"""The only door to Triton's private modules.

Input: names of Triton. Output: these names and small functions over them, for the rest of the package. For example:

    from ..triton_port.runtime import active_target        active_target()        GPUTarget("cuda", 90, 32) on an H200

Everything that a new Triton release may move is imported here and nowhere else; `tests/triton_port` pins each borrowed
name and signature, so a release that breaks us says where. Public `triton.language` may be imported anywhere.
"""
