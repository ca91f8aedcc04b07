"""What the layer brings."""


def key_of(prefix: str, order: str) -> str:
    return f"{prefix}-{order}"
