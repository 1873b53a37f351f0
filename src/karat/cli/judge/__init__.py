"""`karat judge`: one module per subcommand."""

HELP = "Judge what the gold lacks: draw pairs, and have people or a language model grade them."
SUBCOMMANDS = ("pool", "ask", "sample", "label", "calibrate")
"""Each is a function in the module of its name, in the order of `karat judge --help`."""
