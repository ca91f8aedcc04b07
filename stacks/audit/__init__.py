"""The audit stack: exports, a Spark job and a verdict each night. Opt-in, with `-c audit=true`."""
