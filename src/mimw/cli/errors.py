"""The error of a command line: a name that is not there, a value that cannot be read.

Input: a message that says what was given and what would do. Output: one line on stderr and exit status 1 or 2
(`cli.main`):

    raise CommandError("'fp7' is no element type. There are fp16, ...")
    mimw: 'fp7' is no element type. There are fp16, ...
"""


class CommandError(Exception):
    """A mistake on the command line; the message says what was given and what would do."""
