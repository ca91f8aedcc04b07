"""The pages of docs/look-up whose tables are made from the code."""
