"""What the commands print, one module per command."""
