"""
The browser demo (`elmo-hf space`): what the vectors, the language model and taggers of a model do, in six tabs.

Each tab is a module: functions that compute (data in, data out), one that renders HTML, and one that lays out the tab.
Only the layout imports Gradio.
"""
