"""Measurements. Each prints its figures, ours beside the peers', in one run."""
