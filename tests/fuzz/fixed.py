"""The seeds of the programs that `make test` runs: few and small, of all families, with every word and every op between them.

Chosen by `python -m tests.fuzz.coverage 520`, and those for sm_100a by `.. 150 blackwell`, to be chosen anew when the grammar
changes: a seed is then another program.
"""

SEEDS = (
    5,
    26,
    51,
    70,
    119,
    127,
    139,
    150,
    162,
    165,
    168,
    170,
    171,
    200,
    204,
    215,
    230,
    244,
    246,
    259,
    287,
    306,
    314,
    323,
    337,
    340,
    347,
    379,
    394,
    395,
    399,
    402,
    453,
    461,
    466,
    470,
    487,
    498,
    509,
    513,
)

BLACKWELL_SEEDS = (0, 25, 43, 45, 46, 64, 73, 91, 109)
PROGRAMS = (*((seed, None) for seed in SEEDS), *((seed, "blackwell") for seed in BLACKWELL_SEEDS))
