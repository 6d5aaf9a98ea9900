"""The command line."""

from saddlewalk.cli.main import main as main
