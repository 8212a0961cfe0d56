"""What things cost: on each chip (`model`: data files with sources, and formulas over them), and roughly (`abstract`).

Both go by the kind of work that an op's row names. `from mimw.costs import model; model("sm_90a").tile(op)` gives cycles by unit.
"""

from .model import Figure, Model, model

__all__ = ["Figure", "Model", "model"]
