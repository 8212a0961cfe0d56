"""Powers of two, which the extents of tiles are.

Input: how many numbers there are. Output: the extent of a tile that takes them. For example:

    power_of_two(100)       128
    tile(5)                 16
"""

SMALLEST = 16   # extent of a tile: what tensor cores take of any type


def power_of_two(n: int) -> int:
    """The smallest one that is n or more."""
    return 1 << max(0, (n - 1).bit_length())


def tile(n: int) -> int:
    """The smallest one of a product's operand."""
    return max(SMALLEST, power_of_two(n))
