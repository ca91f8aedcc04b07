"""The handlers of the question pages, as users write them: without types. Each has a handler that breaks, and a fixed one."""
