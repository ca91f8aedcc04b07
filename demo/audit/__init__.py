"""The appointments' part of the Spark audit: the checks of their rows, their tables and words."""
