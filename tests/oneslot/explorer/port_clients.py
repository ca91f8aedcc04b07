"""The clients under one contract, the stand-in, moto and the embedded AWS, and the calls that its tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

PORT, MOTO, EMBEDDED = "port", "moto", "embedded AWS"
EVERYWHERE = [PORT, MOTO, pytest.param(EMBEDDED, marks=pytest.mark.embedded_aws)]
NOT_MOTO = [PORT, pytest.param(EMBEDDED, marks=pytest.mark.embedded_aws)]


@dataclass
class Clock:
    """The stand-in's clock (epoch ms)."""

    now: int = 1_795_000_000_000

    def __call__(self) -> int:
        return self.now


everywhere = pytest.mark.parametrize("client", EVERYWHERE, indirect=True)
not_moto = pytest.mark.parametrize("client", NOT_MOTO, indirect=True)


def put(client: Any, message_id: str, **attributes: Any) -> None:
    client.put_item(TableName="ledger", Item={"message_id": {"S": message_id}, **attributes})


def get(client: Any, message_id: str) -> dict[str, Any] | None:
    found = client.get_item(TableName="ledger", Key={"message_id": {"S": message_id}}, ConsistentRead=True)
    item: dict[str, Any] | None = found.get("Item")
    return item


def update(client: Any, message_id: str, expression: str, **more: Any) -> Any:
    return client.update_item(
        TableName="ledger", Key={"message_id": {"S": message_id}}, UpdateExpression=expression, **more
    )


def refusal(call: Callable[[], Any]) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call()
    return dict(caught.value.response)
