"""Split-KV attention with a cache: up to 128 rows a tile, all keys in equal splits, parts of tiles left to ../combine.

Input: arguments of a launch. Output: O and lse of tiles that one worker reads whole, parts of the others. For example:

    from .split_kv.kernel import attention_decode
"""
