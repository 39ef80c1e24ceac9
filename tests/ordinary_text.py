"""The corpus made ordinary text again: as a person would have typed it."""

NO_BLANK_BEFORE = {*",.;:?!)]%/", "...", "n't", "'s", "'ll", "'ve", "'m", "'re", "'d"}
NO_BLANK_AFTER = set("([$#/")
ONE_WORD = {("can", "not"), ("gon", "na"), ("got", "ta"), ("wan", "na"), ("'t", "is"), ("'t", "was"), ("+", "+")}


def closes(tokens, i, is_open):
    """Whether the quotation mark tokens[i] belongs to what is before it (an apostrophe always does)."""
    if i == 0:
        return False
    if i + 1 == len(tokens) or tokens[i + 1] in set(".,;:?!)]"):
        return True
    if tokens[i] == "'" and not is_open and tokens[i - 1][-1].isalnum():
        return tokens[i - 1][-1] in "sn" or "'" not in tokens[i + 1 :]  # the dogs', mornin', o'
    return is_open


def ordinary_text(tokens):
    """The tokens of a sentence as a person would type them, and the span of each."""
    text, spans, open_marks, hug = "", [], set(), True
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else ""
        is_mark = token in ('"', "'")
        closing = is_mark and closes(tokens, i, token in open_marks)
        glued = hug or closing or token in NO_BLANK_BEFORE or token.startswith("'s-")
        glued |= (before.lower(), token) in ONE_WORD
        glued |= before == '"' and token[0] == "-" and token[1:].isalpha()  # "Titanic"-like
        text += "" if glued else " "
        spans.append((len(text), len(text) + len(token)))
        text += token
        hug = token in NO_BLANK_AFTER or (is_mark and not closing)
        if is_mark:
            (open_marks.discard if closing else open_marks.add)(token)
    return text, spans
