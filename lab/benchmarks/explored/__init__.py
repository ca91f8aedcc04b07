"""The cost of exploring a handler, by the number and the kind of its calls."""
