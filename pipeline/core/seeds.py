"""Seeds, derived from a completion's address, never from N, pool depth or strategy."""

import hashlib

_SEED_BITS = 31  # vLLM and numpy both take a non-negative 32-bit integer


def _seed_of(*parts: object) -> int:
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - _SEED_BITS)


def question_seed(run_seed: int, benchmark: str, question_id: str) -> int:
    """The seed that a question carries, in [0, 2^31)."""
    return _seed_of("question", run_seed, benchmark, question_id)


def request_seed(seed: int, pool: str, chain: int, round: int, sample: int) -> int:
    """The sampling seed of one completion of a question with `seed`, in [0, 2^31)."""
    return _seed_of("request", seed, pool, chain, round, sample)
