"""
`python -m elmo_hf.demo`: the included model's vectors of words with two meanings.

`text.txt`, the text that is searched for neighbours, was written for this project and has the licence of the code,
Apache-2.0. It has one sentence per line and one paragraph per meaning of each word.
"""
