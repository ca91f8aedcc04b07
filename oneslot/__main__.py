"""`python -m oneslot`."""

from oneslot.cli import main

if __name__ == "__main__":
    main()
