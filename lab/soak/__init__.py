"""The soak: the deployed handler in real processes under kill -9 and freezes, and the verdict on it."""
