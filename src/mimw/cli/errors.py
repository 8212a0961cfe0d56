"""What a command refuses: a name that is not there, a value that cannot be read."""


class CommandError(Exception):
    """A mistake on the command line; the message says what was given and what would do."""
