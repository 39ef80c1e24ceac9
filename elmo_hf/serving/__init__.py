"""Serving: an HTTP server for vectors, tags and labels, with the conventions that clients exist for."""

from .app import create_app
from .served_models import ClassifyingModel, EmbeddingModel, TaggingModel, load_models
from .server import read_api_key, serve
from .serving_limits import ServingLimits

__all__ = [
    "ClassifyingModel",
    "EmbeddingModel",
    "ServingLimits",
    "TaggingModel",
    "create_app",
    "load_models",
    "read_api_key",
    "serve",
]
