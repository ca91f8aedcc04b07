"""The clock of the stand-ins, and the refusal of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError


@dataclass
class Clock:
    """The stand-in's clock (epoch ms)."""

    now: int = 1_795_000_000_000

    def __call__(self) -> int:
        return self.now


def refusal(call: Callable[[], Any]) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call()
    return dict(caught.value.response)
