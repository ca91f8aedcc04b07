"""An in-memory stand-in for DynamoDB."""

from oneslot.explorer.services.dynamodb.service import InMemoryDynamoDB
from oneslot.explorer.services.dynamodb.transactions import TOKEN_WINDOW_MS

__all__ = ["TOKEN_WINDOW_MS", "InMemoryDynamoDB"]
