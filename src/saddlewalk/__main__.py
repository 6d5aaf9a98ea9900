"""`python -m saddlewalk` is the command `saddlewalk`."""

from saddlewalk.cli import main

if __name__ == "__main__":
    main()
