"""
What travels to the Hub: configuration, tokenizer, model and heads, in flat files `*_elmo.py` that import each other and
nothing else of this package. `save_pretrained` copies them beside the weights.
"""
