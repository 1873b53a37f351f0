"""The report: one HTML file that works offline, made from a saved document and nothing else."""
