"""What AWS allows, from the service quotas and API references, and the few bounds that are the product's own."""

from __future__ import annotations

# Lambda
LAMBDA_TIMEOUT_SECONDS = range(1, 901)
MEMORY_MB = range(128, 10_241)
MAXIMUM_BATCH_SIZE = 10_000
MAXIMUM_BATCH_SIZE_WITHOUT_WINDOW = 10
MAXIMUM_WINDOW_SECONDS = 300
MAXIMUM_CONCURRENCY = range(2, 1_001)

# An environment has 1,024 file descriptors and as many threads; each thread may hold a connection to DynamoDB and one to SQS.
BATCH_CONCURRENCY = range(1, 501)

# SQS
MAXIMUM_VISIBILITY_SECONDS = 43_200
MESSAGE_RETENTION_SECONDS = range(60, 1_209_601)
MAXIMUM_MESSAGE_BYTES = range(1_024, 1_048_577)
# SQS allows 1 to 1,000. Crashes and deferrals burn receives of healthy messages, and AWS's guide for Lambda says 5 or more.
MAXIMUM_RECEIVE_COUNT = range(5, 1_001)

# CloudWatch Logs: its choices, in days
LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1_827, 3_653)

# SNS: a standard topic of any partition
TOPIC_ARN = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}"

# Glue: a Spark job has at least two workers, of which one drives
GLUE_WORKERS = range(2, 300)

# The product's own
# The folders of the delivery log that a full audit reads are one argument of its job: some 80 characters each.
DELIVERY_FOLDERS = 100
# Of the queue's retention, so many-th part at most may pass while a message fails its receives. The rest is for waiting: before
# the first of them, and behind another's lease, which hides it for one more Lambda timeout.
RECEIVES_SHARE = 2
# Changes are exported out of point-in-time recovery, which keeps 35 days.
AUDIT_FULL_EVERY_DAYS = range(1, 31)
# Of a night's audit: one for Glue to start and stop the job, one to wait for an earlier run and to tell people.
AUDIT_HOURS_AROUND = 2
# The audit of a night must be over before the next one; so much at most for the exports, and for the job.
AUDIT_HOURS = range(1, 21)
# An execution ends, with nobody told, at its 25,000th event. A look at three exports each minute makes 27, 1,620 an hour.
AUDIT_EXPORT_HOURS = range(1, 13)
# From two nights, so that one can build on the other, to ten years.
STORAGE_DAYS = range(2, 3_654)
# More candidates than this are read, paid for and hashed without making conflicts any rarer.
CANDIDATE_SLOTS = range(1, 51)
# What quarantine adds to a message: three attributes of names, types, a code, a sentence and an id; under 1 KiB today.
QUARANTINE_BYTES = 8_192
