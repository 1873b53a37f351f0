"""Options, and `karat.yaml`: what to measure, what to ask of it, and what to write."""
