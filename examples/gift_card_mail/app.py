"""The entry of `cdk deploy --app "python -m examples.gift_card_mail.app"`, in the repository's folder."""

from __future__ import annotations

import os

from examples.gift_card_mail.build import build

if __name__ == "__main__":
    build(os.environ.get("CDK_OUTDIR", "cdk.out/gift-card-mail")).synth()
