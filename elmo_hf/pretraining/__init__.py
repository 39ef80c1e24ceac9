"""Pretraining a biLM: text, streams, loop, evaluation."""
