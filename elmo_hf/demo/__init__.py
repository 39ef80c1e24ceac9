"""
`python -m elmo_hf.demo`: trains a tiny biLM from scratch, offline, and shows one word's vectors in different sentences.

`text.txt`, the text that it learns from, was written for this project and is Apache-2.0 as the code.
"""
