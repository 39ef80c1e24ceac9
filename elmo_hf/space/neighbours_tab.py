"""The tab Neighbours: the words of a text that are most similar to a marked word."""

from ..index import Neighbour
from .html_parts import escaped, marked, paragraph, result
from .input_limits import checked_text
from .page_model import PageModel

SHOWN = 10


def find_neighbours(model: PageModel, text: str, same_word: bool, distinct: bool) -> list[Neighbour]:
    """
    The nearest words of the corpus.

    Args:
        text: A sentence with a marked word.
        same_word: Whether only uses of the same word are wanted.
        distinct: Whether only the nearest use of each word is wanted.
    """
    return model.embedder.neighbors(text, model.index, SHOWN, same_word=same_word, distinct=distinct)


def render_neighbours(neighbours: list[Neighbour], sentences: int) -> str:
    """The result as HTML."""
    if not neighbours:
        return result(paragraph("The text does not contain this word."))
    rows = "".join(
        f'<tr><td class="number">{cosine:.2f}</td><th scope="row">{escaped(use.word)}</th>'
        f"<td>{marked(use.sentence, use.start, use.end)}</td></tr>"
        for cosine, use in neighbours
    )
    head = '<thead><tr><th scope="col">cosine</th><th scope="col">word</th><th scope="col">sentence</th></tr></thead>'
    caption = f"<caption>Nearest words in a text of {sentences:,} sentences</caption>"
    return result(f'<div class="scroll"><table>{caption}{head}<tbody>{rows}</tbody></table></div>')


def answer_neighbours(model: PageModel, text: str, same_word: bool, distinct: bool) -> str:
    """The answer of the tab."""
    text = checked_text(text, "The sentence")
    return render_neighbours(find_neighbours(model, text, same_word, distinct), model.index.sentences)


def lay_out_neighbours(model: PageModel):
    """Adds the tab to the page."""
    import gradio as gr

    from .layout import add_examples, answered, on_submit

    examples = model.texts.marked
    gr.Markdown(
        f"A marked word against all {len(model.index):,} words of a small text that was written for this demo. "
        "Put `**` on both sides of the word."
    )
    text = gr.Textbox(examples[0], label="Sentence with a marked word", max_lines=3)
    with gr.Row():
        same_word = gr.Checkbox(True, label="Only uses of the same word")
        distinct = gr.Checkbox(False, label="Each word once")
    button = gr.Button("Search", variant="primary")

    def answer(text: str, same_word: bool, distinct: bool) -> str:
        return answer_neighbours(model, text, same_word, distinct)

    values = [(example, True, False) for example in examples]
    output = add_examples(examples, values, [text, same_word, distinct], answered(answer), "neighbours-result")
    on_submit(button, [text], answered(answer), [text, same_word, distinct], output, "neighbours")


__all__ = ["answer_neighbours", "find_neighbours", "lay_out_neighbours", "render_neighbours"]
