"""What the explorer delivers to the shop, and what it finds there."""

messages = [{"message_id": "o-1", "customer": "ada", "article": "teapot"}]
tables = {"orders": ("customer", "number"), "stock": "article", "customers": "id", "baskets": "customer"}
rows = {
    "stock": [{"article": "teapot", "left": 2}],
    "customers": [{"id": "ada", "status": "active"}],
    "baskets": [{"customer": "ada", "articles": ["teapot"]}],
}
