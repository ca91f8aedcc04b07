"""The verbs, a file each: it reads its arguments, calls a room of `oneslot`, and shows the result."""
