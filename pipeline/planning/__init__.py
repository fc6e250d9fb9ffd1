"""What a run will take and in which order: memory, replicas, hours, work left, admission."""
