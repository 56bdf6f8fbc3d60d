"""The whole command line."""

from tfcli.cli.main import commands

app = commands()
