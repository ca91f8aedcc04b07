"""`python -m prover`: the same as `oneslot prove`."""

import sys

import click

from oneslot.prove_command import prove

if __name__ == "__main__":
    try:
        sys.exit(prove.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
