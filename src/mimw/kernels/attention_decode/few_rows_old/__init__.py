"""Attention of up to 16 rows with a cache in one launch: each warp has keys of its own, who comes last reduces the splits.

Input: arguments of a launch. Output: O and lse. For example:

    from .few_rows.kernel import attention_decode_few_rows
"""
