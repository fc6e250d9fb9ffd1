"""Logs of other tools, read into pools."""
