"""Tests of tfcli.explorer.state."""
