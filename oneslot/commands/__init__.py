"""The verbs, one a file: each reads its arguments, calls a room of `oneslot`, and shows the result."""
