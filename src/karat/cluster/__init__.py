"""Beyond one machine: the same aligner on the workers of a Spark cluster. Only this room knows Spark."""
