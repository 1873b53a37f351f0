"""What the subcommands of `karat judge` do with files: one module each."""
