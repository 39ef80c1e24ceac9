"""Text in, contextual vectors out: from a sentence to a corpus."""
