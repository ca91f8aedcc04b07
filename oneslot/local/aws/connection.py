"""The connection to one account of the embedded AWS, from which every boto3 client of the local stack is made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.configprovider import BOTOCORE_DEFAUT_SESSION_VARIABLES
from botocore.session import Session

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient

REGION = "eu-west-2"  # London: where NHS data is kept
LOCAL_ACCOUNT = "000000000000"
SECRET = "local"  # noqa: S105  the embedded AWS checks no signature, but its session token


@dataclass(frozen=True)
class Connection:
    """An endpoint and the credentials for it. In the embedded AWS a 12-digit access key id *is* the account.

    session_token: the secret of one start of the embedded AWS, which refuses requests without it.
    """

    endpoint_url: str
    access_key_id: str = LOCAL_ACCOUNT
    secret_access_key: str = SECRET
    region: str = REGION
    session_token: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which any AWS SDK or the AWS CLI reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            **({"AWS_SESSION_TOKEN": self.session_token} if self.session_token else {}),
            "AWS_DEFAULT_REGION": self.region,
        }

    @property
    def account(self) -> str:
        """The 12-digit account that this connection's resources live in."""
        return self.access_key_id

    def dynamodb(self) -> DynamoDBClient:
        """Return a new DynamoDB client. The caller closes it."""
        client: DynamoDBClient = self.client("dynamodb")
        return client

    def functions(self) -> LambdaClient:
        """Return a new Lambda client. The caller closes it."""
        client: LambdaClient = self.client("lambda")
        return client

    def s3(self) -> S3Client:
        """Return a new S3 client with path-style addresses (no name resolution). The caller closes it."""
        client: S3Client = self.client("s3", Config(s3={"addressing_style": "path"}))
        return client

    def sqs(self, config: Config | None = None) -> SQSClient:
        """Return a new SQS client; `config` overrides the defaults. The caller closes it."""
        client: SQSClient = self.client("sqs", config)
        return client

    def client(self, service: str, config: Config | None = None, region_name: str | None = None) -> Any:
        """Return a new client of any service; `config` overrides the defaults. The caller closes it."""
        # On loopback a slow answer is a fault: report it soon rather than after botocore's 60 s.
        usual = Config(
            connect_timeout=5, read_timeout=30, max_pool_connections=32, retries={"total_max_attempts": 3}, proxies={}
        )
        make: Any = _session().client
        with _MAKING:
            return make(
                service,
                endpoint_url=self.endpoint_url,
                region_name=region_name or self.region,
                aws_access_key_id=self.access_key_id,
                aws_secret_access_key=self.secret_access_key,
                aws_session_token=self.session_token,
                config=usual.merge(config) if config else usual,
            )


# A session is not thread-safe while it makes a client. Clients are.
_MAKING = Lock()
_FILES = ("config_file", "credentials_file")


@cache
def _session() -> boto3.Session:
    """Return the one session of this process: each new one parses AWS's list of endpoints, a tenth of a second of CPU.

    Every setting has its default, because the user's variables and files are meant for AWS. A missing profile or FIPS
    endpoints would stop the local run, and other retry settings would change it.
    """
    defaults = {
        name: (None, None, None if name in _FILES else default, conversion)
        for name, (_, _, default, conversion) in BOTOCORE_DEFAUT_SESSION_VARIABLES.items()
    }
    return boto3.Session(botocore_session=Session(session_vars=defaults))
