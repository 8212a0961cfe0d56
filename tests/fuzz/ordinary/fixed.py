"""The seeds of the ordinary programs that the suite runs: each under one plan; few, quick, and with every kind of statement
between them.

To be chosen anew where the grammar changes, as a seed is another program then: `tests/fuzz/test_ordinary.py` says which kind is
missing.
"""

SEEDS = (
    5, 7, 8, 9, 10, 15, 19, 20, 42, 46, 56, 57, 60, 64, 71, 74, 82, 84, 92, 94,
    101, 105, 106, 109, 110, 112, 115, 124, 133, 134, 135, 136, 145, 147, 151, 158, 161, 168, 169,
)
