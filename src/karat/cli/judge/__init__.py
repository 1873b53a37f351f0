"""`karat judge`: one module per subcommand."""

SUBCOMMANDS = ("pool", "ask", "sample", "label", "calibrate")
"""Each is a function in the module of its name, in the order of `karat judge --help`."""
