"""Plain frozen data: gold, runs, queries, rankings."""
