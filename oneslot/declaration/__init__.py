"""A consumer's declaration: what the tools must know of it, from `oneslot.toml`. Pure: no AWS, no Spark."""
