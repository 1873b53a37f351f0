"""Arrays in, estimates out; knows no metric by name."""
