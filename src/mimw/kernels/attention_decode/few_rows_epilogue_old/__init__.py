"""Attention of up to 16 rows with a cache in one launch, as ../few_rows, with an epilogue as a role of its own; also e4m3.

Input: arguments of a launch. Output: O and lse. For example:

    from .few_rows_epilogue.kernel import attention_decode_few_rows_epilogue
"""
