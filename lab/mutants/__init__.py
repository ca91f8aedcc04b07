"""Named defects of the code, and the search that must notice each: `edits.txt` is the table, `__main__.py` its runner."""
