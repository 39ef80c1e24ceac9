"""Heads on real tasks: data, training with transformers' Trainer, metrics, cards."""
