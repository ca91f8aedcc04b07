"""Intended differences from Powertools' stock persistence layer, by the name of the upstream test that shows each."""

NO_CACHE = "no local cache: a duplicate costs one call to the ledger, so its answer is never stale"
NO_READ = "a refused claim returns the row, so no read can fail or disagree with the write"
TAKEOVER = "the claim itself takes over an expired lease, in one write; the stock layer retries and gives up"
FAILS_CLOSED = "a message without a key is refused; the stock layer warns and runs the function unprotected"
NO_OPTIONS = "the upstream test checks constructor options that our layer does not have"
NO_EXPIRY = "a record shows the function no expiry: time to live is for cleaning only"

DEVIATIONS = {
    "test_idempotent_lambda_in_progress_with_cache": NO_CACHE,
    "test_idempotent_lambda_first_execution_cached": NO_CACHE,
    "test_idempotent_lambda_expired_during_request": NO_READ,
    "test_idempotent_persistence_exception_getting": NO_READ,
    "test_idempotent_lambda_expires_in_progress_after_expire": TAKEOVER,
    "test_idempotent_function_duplicates": FAILS_CLOSED,
    "test_invalid_dynamodb_persistence_layer": NO_OPTIONS,
    "test_idempotent_lambda_already_completed_response_hook_is_called": NO_EXPIRY,
    "test_idempotent_lambda_already_completed_response_hook_is_called_with_none": NO_EXPIRY,
}
"""Upstream test → why our layer must fail it. `test_upstream.py` checks both directions."""

NOT_OURS = {
    "_pydantic": "tests of Powertools' serializers, against a mock persistence layer",
    "_redis": "tests of the Redis layer's client and its orphaned records",
}
"""Folders of upstream idempotency tests that are skipped, and why."""
