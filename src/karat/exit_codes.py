"""Exit codes, as CI systems see them: their numbers; which error ends with which: `_exit_code` in `cli/__init__.py`."""

SHIP = 0
BLOCK = 1
WRONG_INPUT = 2
INCONCLUSIVE = 3
CODES = {"SHIP": SHIP, "BLOCK": BLOCK, "INCONCLUSIVE": INCONCLUSIVE}
"""The code of each verdict."""
FAULT = 70
INTERRUPTED = 130
NO_READER = 141
"""The reader of a pipe left before there was a verdict; as a shell tells of SIGPIPE."""
