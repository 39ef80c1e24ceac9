"""Reading text, tables and CoNLL columns, and batching sentences: shared by all task folders."""
