"""What may be wrong with a user's text, models and folders; each message is one line that says so, and what to do."""


class TextError(ValueError):
    """What is wrong with a text or with examples."""


class ModelError(ValueError):
    """A model that cannot be used as asked."""


class FolderError(ValueError):
    """A folder that cannot be written as asked."""


class RunError(ValueError):
    """What is wrong with a run's folder."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read."""


class DivergenceError(RuntimeError):
    """The loss has become useless; the message names the last good checkpoint."""


class HubError(RuntimeError):
    """What the Hub refused, or the way there did not let through."""


__all__ = ["CheckpointError", "DivergenceError", "FolderError", "HubError", "ModelError", "RunError", "TextError"]
