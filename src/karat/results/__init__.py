"""The result of an evaluation: what it holds, rests on, and how two of them are paired."""
