"""Powers of two, which the extents of tiles are.

Input: how many numbers there are. Output: the extent of a tile that takes them. For example:

    power_of_two(100)       128
"""


def power_of_two(n: int) -> int:
    """The smallest one that is n or more."""
    return 1 << max(0, (n - 1).bit_length())
