"""Routing of calls to engines: addresses, transports, the routing policy, the client."""
