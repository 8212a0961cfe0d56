"""Random orchestrated programs, each read once by numpy and run by mimw; what differs is a bug.

A program is drawn from a seed (`families`), as a tree (`tree`) whose every step is written twice: as lines of a kernel and as
lines of numpy, which run the tree from top to bottom as if there were neither tasks nor barriers. `orchestrate` then spreads
the steps over tasks and puts rings, pipes and barriers between them. `python -m tests.fuzz 0 100` runs a hundred of them;
docs/FUZZING.md tells the rest.
"""
