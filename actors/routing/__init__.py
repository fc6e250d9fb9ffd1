"""Reaching an engine from elsewhere: addresses, transports, the routing policy, the client."""
