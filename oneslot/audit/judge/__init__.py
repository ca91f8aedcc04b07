"""Whole groups of rows, judged by the laws or by a quick look at their columns."""
