"""Handlers that people wrote, unmodified, through the explorer: the table of the world, and the question pages."""
