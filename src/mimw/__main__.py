"""`python -m mimw` is the command `mimw`, for machines on which the command itself is not on the path.

Input: the command's arguments. Output: the exit status of `mimw.cli.main`. For example:

    python -m mimw doctor       as `mimw doctor`
"""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
