"""How to reach one account of one AWS: what every boto3 client of the local run is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient

REGION = "eu-west-2"  # London: where NHS data is kept
LOCAL_ACCOUNT = "000000000000"
SECRET = "local"  # noqa: S105  the embedded AWS checks no signature


@dataclass(frozen=True)
class Connection:
    """An endpoint and the credentials for it. In the embedded AWS a 12-digit access key id *is* the account."""

    endpoint_url: str
    access_key_id: str = LOCAL_ACCOUNT
    secret_access_key: str = SECRET
    region: str = REGION

    @property
    def account(self) -> str:
        """The 12-digit account that this connection's resources live in."""
        return self.access_key_id

    def _session(self) -> boto3.Session:
        # A session of its own per client: sessions are not thread-safe while they build one.
        return boto3.Session(self.access_key_id, self.secret_access_key, region_name=self.region)

    def _config(self) -> Config:
        # The whole exchange is on loopback: a slow answer is a fault to see soon, not to wait 60 s for.
        return Config(
            connect_timeout=5, read_timeout=30, max_pool_connections=32, retries={"total_max_attempts": 3}, proxies={}
        )

    def cloudformation(self) -> CloudFormationClient:
        """Return a new CloudFormation client. The caller closes it."""
        return self._session().client("cloudformation", endpoint_url=self.endpoint_url, config=self._config())

    def dynamodb(self) -> DynamoDBClient:
        """Return a new DynamoDB client. The caller closes it."""
        return self._session().client("dynamodb", endpoint_url=self.endpoint_url, config=self._config())

    def functions(self) -> LambdaClient:
        """Return a new Lambda client. The caller closes it."""
        return self._session().client("lambda", endpoint_url=self.endpoint_url, config=self._config())

    def s3(self) -> S3Client:
        """Return a new S3 client with path-style addresses (no name resolution). The caller closes it."""
        config = self._config().merge(Config(s3={"addressing_style": "path"}))
        return self._session().client("s3", endpoint_url=self.endpoint_url, config=config)

    def sqs(self, config: Config | None = None) -> SQSClient:
        """Return a new SQS client; `config` wins over what is usual here. The caller closes it."""
        merged = self._config().merge(config) if config else self._config()
        return self._session().client("sqs", endpoint_url=self.endpoint_url, config=merged)
