"""The Lambda function that consumes the queue of orders."""

from __future__ import annotations

from examples.gift_card_mail.runtime.gift_cards import issue, parse
from oneslot import consumer_from_environment

handler = consumer_from_environment(issue, parse)
