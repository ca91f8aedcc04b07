"""The verbs: each reads its arguments, calls a room of `oneslot`, and shows the result."""
