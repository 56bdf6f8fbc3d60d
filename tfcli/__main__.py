"""``python -m tfcli`` is the ``tfcli`` command."""

from tfcli.cli.main import main

if __name__ == "__main__":
    main()
