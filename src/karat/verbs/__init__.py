"""One module or package per command: the functions behind `karat evaluate`, `karat check` and the rest."""
