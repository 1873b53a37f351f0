"""Views of a result: terminal tables and files."""
