"""The seeds of the programs that `make test` runs: few and small, of all families, with every word and every op between them.

Chosen by `python -m tests.fuzz.coverage 640`, those for sm_100a by `.. 150 blackwell` and those for AMD's chips by `.. 170 amd`, to
be chosen anew when the grammar changes: a seed is then another program.
"""

SEEDS = (
    2,
    26,
    51,
    62,
    72,
    134,
    139,
    147,
    162,
    165,
    200,
    204,
    219,
    238,
    246,
    259,
    306,
    336,
    337,
    339,
    340,
    367,
    376,
    379,
    394,
    395,
    453,
    466,
    487,
    513,
    528,
    546,
    550,
    559,
    567,
    576,
    590,
    611,
    616,
    627,
    633,
)

BLACKWELL_SEEDS = (0, 25, 43, 45, 46, 64, 73, 91, 109)
AMD_SEEDS = (11, 14, 15, 18, 30, 31, 39, 45, 49, 53, 165)
PROGRAMS = (
    *((seed, None) for seed in SEEDS),
    *((seed, "blackwell") for seed in BLACKWELL_SEEDS),
    *((seed, "amd") for seed in AMD_SEEDS),
)
