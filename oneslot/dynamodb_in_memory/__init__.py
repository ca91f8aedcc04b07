"""An in-memory stand-in for DynamoDB."""

from oneslot.dynamodb_in_memory.service import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.writes import TOKEN_WINDOW_MS

__all__ = ["TOKEN_WINDOW_MS", "InMemoryDynamoDB"]
