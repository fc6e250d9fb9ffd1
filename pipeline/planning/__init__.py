"""Planning: memory, replicas, hours, order of the work, admission, caps."""
