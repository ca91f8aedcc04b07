"""What the exploration of a handler costs, by the number and the kind of its calls."""
