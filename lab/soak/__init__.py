"""The soak: the deployed handler in real processes under kill -9, freezes and a bad network, and the verdict on it."""
