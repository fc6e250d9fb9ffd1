"""The protocol of strategies, and what all rooms share: errors, seeds, prompts, PRM steps."""
