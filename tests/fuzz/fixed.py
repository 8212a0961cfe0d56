"""The seeds of the programs that `make test` runs: few and small, of all families, with every word and every op between them.

Chosen by `python -m tests.fuzz.coverage 520`, those for sm_100a by `.. 150 blackwell` and those for AMD's chips by `.. 60 amd`, to
be chosen anew when the grammar changes: a seed is then another program.
"""

SEEDS = (
    0,
    2,
    20,
    31,
    51,
    56,
    62,
    64,
    81,
    88,
    103,
    124,
    127,
    134,
    135,
    139,
    162,
    165,
    170,
    198,
    200,
    204,
    206,
    218,
    235,
    240,
    246,
    281,
    283,
    312,
    347,
    370,
    379,
    389,
    396,
    417,
    466,
    470,
    488,
    517,
)

BLACKWELL_SEEDS = (0, 25, 43, 45, 46, 64, 73, 91, 109)
AMD_SEEDS = (7, 59)
PROGRAMS = (
    *((seed, None) for seed in SEEDS),
    *((seed, "blackwell") for seed in BLACKWELL_SEEDS),
    *((seed, "amd") for seed in AMD_SEEDS),
)
