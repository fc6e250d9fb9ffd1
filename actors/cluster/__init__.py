"""Ray cluster: run monitor, settings of Ray Data, background tasks and retries of storage."""
