"""What the explorer delivers to the shop, and what it finds there."""

from typing import Any

messages = [{"message_id": "o-1", "customer": "ada", "article": "teapot"}]
tables: dict[str, str | tuple[str, ...]] = {
    "orders": ("customer", "number"),
    "stock": "article",
    "customers": "id",
    "baskets": "customer",
}
rows: dict[str, list[dict[str, Any]]] = {
    "stock": [{"article": "teapot", "left": 2}],
    "customers": [{"id": "ada", "status": "active"}],
    "baskets": [{"customer": "ada", "articles": ["teapot"]}],
}
