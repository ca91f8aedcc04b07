"""Settings: a contradiction is refused with a sentence that names the numbers and the remedy."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oneslot.cdk.numbers import DAY, ContradictorySettings, stalled_minutes
from stacks.context import given_settings, settings_from_context
from stacks.settings import STAGES, Settings

DEV = STAGES["dev"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # Limits: the number, the bound, and the name to change.
        ({"lambda_timeout_seconds": 901}, ["lambda_timeout_seconds is 901", "1 to 900"]),
        ({"lambda_timeout_seconds": 0}, ["lambda_timeout_seconds is 0", "1 to 900"]),
        ({"lambda_memory_mb": 64}, ["lambda_memory_mb is 64", "128 to 10240"]),
        ({"visibility_multiplier": 0}, ["visibility_multiplier is 0", "1 to"]),
        ({"max_concurrency": 1}, ["max_concurrency is 1", "2 to 20000"]),
        ({"max_concurrency": 20_001}, ["max_concurrency is 20001", "2 to 20000"]),
        ({"max_concurrency": 1_001}, ["max_concurrency 1001", "1000", "provisioned_pollers", "lower max_concurrency"]),
        ({"provisioned_pollers": 1}, ["provisioned_pollers is 1", "2 or more"]),
        ({"provisioned_pollers": 2}, ["provisioned_pollers 2", "20 consumers", "max_concurrency 8"]),
        ({"table_warm_writes": 3_999}, ["table_warm_writes is 3999", "4000 a second"]),
        (
            {"table_warm_writes": 9_000, "table_maximum_writes": 8_000},
            ["table_maximum_writes 8000", "table_warm_writes 9000"],
        ),
        ({"batch_size": 0}, ["batch_size is 0", "1 to 10000"]),
        ({"batch_size": 10_001, "batching_window_seconds": 1}, ["batch_size is 10001", "1 to 10000"]),
        ({"batching_window_seconds": 301}, ["batching_window_seconds is 301", "0 to 300"]),
        ({"batching_window_seconds": -1}, ["batching_window_seconds is -1", "0 to 300"]),
        ({"candidate_slots": 0}, ["candidate_slots is 0", "1 to 50"]),
        ({"candidate_slots": 51}, ["candidate_slots is 51", "1 to 50"]),
        ({"max_receive_count": 4}, ["max_receive_count is 4", "5 to 1000", "deferrals"]),
        ({"max_receive_count": 1_001}, ["max_receive_count is 1001", "5 to 1000"]),
        ({"queue_retention_seconds": 59}, ["queue_retention_seconds is 59", "60 to 1209600"]),
        (
            {"dead_letter_retention_seconds": 15 * DAY},
            ["dead_letter_retention_seconds is 1296000", "60 to 1209600"],
        ),
        ({"log_retention_days": 31}, ["log_retention_days is 31", "30, 60"]),
        ({"alarm_topic_arn": "on-call"}, ["alarm_topic_arn is 'on-call'", "arn:aws:sns:"]),
        ({"audit_workers": 1}, ["audit_workers is 1", "2 to 299"]),
        # Relations: both numbers, and what to do.
        (
            {"queue_retention_seconds": 60},
            ["alarm_oldest_message_seconds 600", "queue_retention_seconds 60", "raise queue_retention_seconds"],
        ),
        (
            {"queue_retention_seconds": 60, "alarm_oldest_message_seconds": 60},
            ["alarm_oldest_message_seconds 60", "queue_retention_seconds 60"],
        ),
        (
            {"lambda_timeout_seconds": 60, "longest_lease_seconds": 59},
            ["longest_lease_seconds 59", "lambda_timeout_seconds 60", "raise longest_lease_seconds"],
        ),
        (
            {"max_receive_count": 10, "longest_retry_delay_seconds": 17_281},
            ["longest_retry_delay_seconds 17281", "172810 s", "queue_retention_seconds 345600", "Lower one"],
        ),
        (
            {"lambda_timeout_seconds": 900, "visibility_multiplier": 48},
            [
                "max_receive_count 10",
                "lambda_timeout_seconds 900 * visibility_multiplier 48",
                "432000 s",
                "queue_retention_seconds 345600",
                "silently deletes",
                "Lower",
            ],
        ),
        (
            {"queue_retention_seconds": 601, "max_receive_count": 11},
            [
                "max_receive_count 11",
                "lambda_timeout_seconds 30",
                "330 s",
                "queue_retention_seconds 601",
                "raise queue_retention_seconds",
            ],
        ),
        (
            {"lambda_timeout_seconds": 900, "visibility_multiplier": 49},
            ["44100 s", "lambda_timeout_seconds 900", "visibility_multiplier 49", "43200 s", "lower"],
        ),
        (
            {"lambda_timeout_seconds": 30, "batching_window_seconds": 5},
            ["30 s", "batching_window_seconds 5", "raise visibility_multiplier"],
        ),
        ({"batch_size": 11}, ["batch_size 11", "above 10", "batching_window_seconds is 0", "1 or more"]),
        ({"queue": "fifo", "longest_retry_delay_seconds": 30}, ["longest_retry_delay_seconds is 30", "set it to 0"]),
        (
            {"dead_letter_retention_seconds": 4 * DAY},
            ["dead_letter_retention_seconds 345600", "queue_retention_seconds 345600", "raise"],
        ),
        (
            {"ledger_retention_seconds": 25 * DAY - 1},
            ["ledger_retention_seconds 2159999", "2160000", "345600", "1209600", "604800", "raise"],
        ),
        (
            {"log_retention_days": 14},
            ["log_retention_days 14", "ledger_retention_seconds 2592000 (30 days)", "raise log_retention_days"],
        ),
        (
            {"log_retention_days": 14, "ledger_retention_seconds": None},
            ["log_retention_days 14", "2160000", "raise log_retention_days"],
        ),
    ],
)
def test_settings_are_refused_when_they_contradict(changes: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ContradictorySettings) as refusal:
        replace(DEV, **changes)
    sentence = str(refusal.value)
    assert [part for part in said if part not in sentence] == [], sentence
    assert "\n" not in sentence


LONGEST_HIDDEN = {
    "lambda_timeout_seconds": 900,
    "visibility_multiplier": 48,
    "max_receive_count": 5,
    "queue_retention_seconds": 5 * DAY,
}


@pytest.mark.parametrize(
    "changes",
    [
        LONGEST_HIDDEN,
        {"queue_retention_seconds": 601},
        {"max_receive_count": 1_000},
        {"batch_size": 10_000, "batching_window_seconds": 1, "visibility_multiplier": 2},
        {"batching_window_seconds": 30, "visibility_multiplier": 2},
        {"batch_size": 1},
        {"max_concurrency": 2},
        {"lambda_timeout_seconds": 60, "longest_lease_seconds": 60},
        {"longest_retry_delay_seconds": 17_280},
        {"max_concurrency": 1_000},
        {"max_concurrency": 20_000, "provisioned_pollers": 2},
        {"max_concurrency": 11, "provisioned_pollers": 2, "table_warm_writes": 4_000, "table_maximum_writes": 4_000},
        {"max_receive_count": 5},
        {"ledger_retention_seconds": 25 * DAY},
        {"ledger_retention_seconds": None},
    ],
)
def test_settings_accept_the_last_valid_number(changes: dict[str, Any]) -> None:
    changed = replace(DEV, **changes)
    assert {name: getattr(changed, name) for name in changes} == changes


numbers = st.integers(-2, 60) | st.integers(-1, 2_000_000)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            field.name: numbers
            for field in fields(Settings)
            if field.type in ("int", "int | None") and field.name != "log_retention_days"
        },
    )
)
@example(LONGEST_HIDDEN)
@example({"batch_size": 50, "batching_window_seconds": 20, "visibility_multiplier": 2})
def test_accepted_settings_are_safe(changes: dict[str, Any]) -> None:
    """State the relations a second time, independently of the code."""
    try:
        s = replace(DEV, **changes)
    except ContradictorySettings as refusal:
        assert any(str(value) in str(refusal) for value in changes.values())
        return
    visible_again = s.lambda_timeout_seconds * s.visibility_multiplier
    assert s.visibility_timeout_seconds == visible_again
    assert s.lambda_timeout_seconds + s.batching_window_seconds <= visible_again <= 12 * 3_600
    assert 1 <= s.lambda_timeout_seconds <= 15 * 60
    assert 1 <= s.batch_concurrency <= s.batch_size <= (10_000 if s.batching_window_seconds else 10)
    assert 2 <= s.max_concurrency <= 1_000
    assert s.max_receive_count >= 5
    # A message that fails at each receive reaches the dead-letter queue long before its retention ends.
    assert s.max_receive_count * visible_again <= s.queue_retention_seconds / 2
    assert s.alarm_oldest_message_seconds < s.queue_retention_seconds
    # The alarm starts when neither a message that fails to the end nor a long job can be the cause.
    delays = [min(2**receive, s.longest_retry_delay_seconds) for receive in range(1, s.max_receive_count + 1)]
    waits = [max(visible_again, s.lambda_timeout_seconds + delay) if delay else visible_again for delay in delays]
    explained = min(max(sum(waits), s.longest_lease_seconds), DAY - 120)
    assert explained + 60 < stalled_minutes(s) * 60 <= explained + 179
    assert 60 <= s.queue_retention_seconds < s.dead_letter_retention_seconds <= 14 * DAY
    assert s.ledger_retention_seconds is not None
    assert s.ledger_retention_seconds >= 2 * s.queue_retention_seconds + s.dead_letter_retention_seconds


def test_settings_are_those_of_dev_without_a_stage() -> None:
    assert settings_from_context({}) == DEV


def test_context_overrides_settings_of_every_type() -> None:
    changed = settings_from_context(
        {"stage": "prod", "max_concurrency": "32", "batch_size": " 5 "} | {"content_based_deduplication": "TRUE"}
    )
    assert changed == replace(STAGES["prod"], max_concurrency=32, batch_size=5, content_based_deduplication=True)


def test_ledger_retention_can_be_forever() -> None:
    assert settings_from_context({"ledger_retention_seconds": "Forever"}).ledger_retention_seconds is None


def test_topic_arn_keeps_its_capitals() -> None:
    topic = "arn:aws:sns:eu-west-2:111122223333:OnCall"
    assert settings_from_context({"alarm_topic_arn": topic}).alarm_topic_arn == topic


def test_context_of_cdk_is_ignored() -> None:
    context = {"@aws-cdk/core:checkSecretUsage": True, "aws:cdk:bundling-stacks": ["**"], "cli-telemetry": False}
    assert settings_from_context(context) == DEV


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"stage": "production"}, ["'production'", "dev, prod"]),
        ({"stage": ["dev"]}, ["['dev']", "dev, prod"]),
        ({"max_concurency": "3"}, ["-c max_concurency is unknown", "did you mean max_concurrency?"]),
        ({"batch-size": "3"}, ["batch-size", "did you mean batch_size?"]),
        ({"zzz": "3"}, ["-c zzz is unknown", "use one of", "batch_size"]),
        ({"retain_data": "true"}, ["retain_data belongs to the stage", "stacks/settings.py"]),
        ({"alarm_failed_deliveries": "5"}, ["alarm_failed_deliveries belongs to the stage", "stacks/settings.py"]),
        ({"batch_size": "ten"}, ["batch_size", "'ten'", "whole number"]),
        ({"batch_size": "5.5"}, ["batch_size", "'5.5'", "whole number"]),
        ({"batch_size": True}, ["batch_size", "'True'", "whole number"]),
        ({"batch_size": None}, ["batch_size", "'None'", "whole number"]),
        ({"ledger_retention_seconds": "ever"}, ["ledger_retention_seconds", "'ever'", "whole number, or forever"]),
        ({"batch_size": "forever"}, ["batch_size", "'forever'", "whole number"]),
        ({"content_based_deduplication": "yes"}, ["content_based_deduplication", "'yes'", "true or false"]),
        ({"max_concurrency": "1"}, ["max_concurrency is 1", "2 to 20000"]),
        ({"audit": "1"}, ["audit", "'1'", "true or false"]),
        ({"alarm_topic_arn": "arn:aws:sqs:eu-west-2:111122223333:q"}, ["alarm_topic_arn", "SNS topic"]),
        ({"ledger_forgotten_before": "yesterday"}, ["ledger_forgotten_before", "'yesterday'", "2026-11-23T14:00:00Z"]),
        ({"ledger_forgotten_before": "2026-11-23T14:00:00"}, ["ledger_forgotten_before", "not a moment in UTC"]),
        ({"ledger_forgotten_before": "2026-11-3T14:00:00Z"}, ["ledger_forgotten_before", "not a moment in UTC"]),
        ({"ledger_forgotten_before": "2026-11-31T14:00:00Z"}, ["ledger_forgotten_before", "not a moment in UTC"]),
    ],
)
def test_context_is_refused_when_it_is_invalid(context: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ContradictorySettings) as refusal:
        settings_from_context(context)
    assert [part for part in said if part not in str(refusal.value)] == [], str(refusal.value)


@pytest.mark.parametrize(
    "context",
    [
        {"stage": "prod"},
        {"stage": "prod", "max_concurrency": "50"},
        {"stage": "prod", "audit": "true", "ledger_retention_seconds": "forever", "max_concurrency": "100"},
        {"stage": "dev", "alarm_topic_arn": "arn:aws:sns:eu-west-2:111122223333:on-call", "queue": "fifo"},
        {"stage": "prod", "ledger_forgotten_before": "2026-11-23T14:00:00Z"},
    ],
)
def test_given_settings_can_be_given_again(context: dict[str, str]) -> None:
    settings = settings_from_context(context)
    words = given_settings(settings).split()
    again = dict(word.split("=", 1) for word in words if word != "-c")
    assert words.count("-c") == len(again)
    assert again == {
        name: value
        for name, value in context.items()
        if (name, value) not in {("stage", context["stage"]), ("max_concurrency", "50")}
    }
    assert settings_from_context({"stage": context["stage"], **again}) == settings
