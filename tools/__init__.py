"""What makes the shipped models and pools. No part of the product: nothing imports it."""
