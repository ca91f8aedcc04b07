"""The code of the shop's function."""
