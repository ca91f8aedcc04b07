"""The local run: an embedded AWS, the real template deployed into it, and the real handler fed from its queue."""
