"""Where our persistence layer is meant to differ from Powertools' stock one, by the name of their test that shows it."""

NO_CACHE = (
    "no local cache: a duplicate costs one call to the ledger, and the ledger's answer is never older than the row"
)
NO_READ = "a refused claim brings the row with it, so there is no read that could fail or disagree with the write"
TAKEOVER = "a lease that has ended is taken over in the claim itself, in one write; theirs retries and gives up"
FAILS_CLOSED = "a message without a key is refused; theirs warns and runs the function unprotected"
NO_OPTIONS = "this checks the options of the stock layer's constructor; ours has one key and no options"
NO_EXPIRY = "a record has no expiry that a function could see: time to live is for cleaning, never for correctness"

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
"""Their test → why ours must fail it. `test_upstream.py` holds both directions."""

NOT_OURS = {
    "_pydantic": "tests of Powertools' serializers, against a mock layer of their own; no persistence layer takes part",
    "_redis": "tests of another stock layer's client and its orphaned records",
}
"""Folders of their idempotency tests that are not run, and why."""
