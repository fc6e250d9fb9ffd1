"""Kinds of verifiers, one module each, behind one interface; `verifier` hosts any of them."""
