"""Measurements of speed and cost. Each prints its figures, ours beside the peers', from one run."""
