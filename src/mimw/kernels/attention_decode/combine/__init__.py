"""The reduction of splits, the launch behind that of ../split_kv.

Input: parts of tiles. Output: O and lse of tiles that several workers have read. For example:

    from .combine.kernel import combine
"""
