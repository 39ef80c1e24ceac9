"""
transformers' own test mixins over our classes, where its source distribution is at hand (`make mixins`).

What cannot apply to ELMo is listed in each module with the reason.
"""
