"""
`python -m elmo_hf.demo`: what the vectors of the model that comes with the package tell about words with two meanings.

`text.txt`, in which it looks for neighbours, was written for this project and is Apache-2.0 as the code: a sentence a
line, a paragraph for each meaning of each word.
"""
