"""The Ray cluster as a run meets it: its monitor, its versions, Ray Data, flaky storage."""
