"""Tests of tfcli.explorer."""
