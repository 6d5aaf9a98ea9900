"""`python -m saddlewalk` and the command `saddlewalk`: the command line in a process of its own."""

from saddlewalk.interrupts import leaving_at_interrupts


def run() -> None:
    """Run the command; what it needs is imported where Ctrl-C is already heard."""
    with leaving_at_interrupts():
        from saddlewalk.cli import main

        main()


if __name__ == "__main__":
    run()
