"""The appointments' part of the Spark audit: what their rows say, their laws as Spark sees them, their tables and words."""
