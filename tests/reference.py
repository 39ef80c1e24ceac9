"""
A slow, obvious biLM in NumPy (float64), written from the description of the original: one word, one step, one direction
at a time, over arrays named and laid out as in the original HDF5 file. Everything else is held against it.
"""

from dataclasses import dataclass, field

import numpy as np

Arrays = dict[str, np.ndarray]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@dataclass
class ReferenceBiLm:
    """The biLM of an options file; `arrays` are its weights."""

    arrays: Arrays
    num_layers: int
    cell_clip: float | None = None
    projection_clip: float | None = None
    skip_connections: bool = False
    activation: str = "relu"
    forget_bias: float = 1.0
    directions: tuple[int, ...] = (0, 1)
    states: dict = field(default_factory=dict)

    def __post_init__(self):
        self.arrays = {name: np.asarray(array, dtype=np.float64) for name, array in self.arrays.items()}

    def token_vector(self, char_ids: np.ndarray | None, word_id: int | None = None) -> np.ndarray:
        """One word's vector from its character ids (with the shift by one) and/or its word id."""
        features = []
        if "embedding" in self.arrays:
            features.append(self.arrays["embedding"][word_id])
        if "char_embed" in self.arrays:
            features.append(self.character_features(char_ids))
        vector = np.concatenate(features)
        if "CNN_proj/W_proj" in self.arrays:
            vector = vector @ self.arrays["CNN_proj/W_proj"] + self.arrays["CNN_proj/b_proj"]
        return vector

    def character_features(self, char_ids: np.ndarray) -> np.ndarray:
        chars = self.arrays["char_embed"][np.asarray(char_ids) - 1]  # (slots, size)
        features, index = [], 0
        while f"CNN/W_cnn_{index}" in self.arrays:
            kernel, bias = self.arrays[f"CNN/W_cnn_{index}"][0], self.arrays[f"CNN/b_cnn_{index}"]  # (width, in, out)
            width = len(kernel)
            windows = [np.einsum("wi,wio->o", chars[p : p + width], kernel) for p in range(len(chars) - width + 1)]
            best = np.max(windows, axis=0) + bias
            features.append(np.maximum(best, 0) if self.activation == "relu" else np.tanh(best))
            index += 1
        x, index = np.concatenate(features), 0
        while f"CNN_high_{index}/W_carry" in self.arrays:
            a, name = self.arrays, f"CNN_high_{index}"
            gate = sigmoid(x @ a[f"{name}/W_carry"] + a[f"{name}/b_carry"])
            x = gate * np.maximum(x @ a[f"{name}/W_transform"] + a[f"{name}/b_transform"], 0) + (1 - gate) * x
            index += 1
        return x

    def step(self, direction: int, layer: int, x: np.ndarray, hidden: np.ndarray, cell: np.ndarray):
        """One LSTM step; returns output and cell."""
        cell_name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        gates = np.concatenate([x, hidden]) @ self.arrays[f"{cell_name}/W_0"] + self.arrays[f"{cell_name}/B"]
        i, j, f, o = np.split(gates, 4)
        cell = sigmoid(f + self.forget_bias) * cell + sigmoid(i) * np.tanh(j)
        if self.cell_clip is not None:
            cell = np.clip(cell, -self.cell_clip, self.cell_clip)
        hidden = sigmoid(o) * np.tanh(cell)
        if f"{cell_name}/W_P_0" in self.arrays:
            hidden = hidden @ self.arrays[f"{cell_name}/W_P_0"]
            if self.projection_clip is not None:
                hidden = np.clip(hidden, -self.projection_clip, self.projection_clip)
        return hidden, cell

    def zero_state(self) -> dict:
        state = {}
        for direction in self.directions:
            for layer in range(self.num_layers):
                name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                cells = self.arrays[f"{name}/B"].shape[0] // 4
                size = self.arrays[f"{name}/W_P_0"].shape[1] if f"{name}/W_P_0" in self.arrays else cells
                state[direction, layer] = np.zeros(size), np.zeros(cells)
        return state

    def sentence(self, tokens: list[np.ndarray], state: dict | None = None) -> tuple[np.ndarray, dict]:
        """
        All layers of one sentence, `(layers + 1, words, directions * size)`, from its token vectors, and the state
        `{(direction, layer): (hidden, cell)}` after its last word.
        """
        state = dict(state or self.zero_state())
        layers = [[np.concatenate([token] * len(self.directions)) for token in tokens]]
        lower = {direction: list(tokens) for direction in self.directions}
        for layer in range(self.num_layers):
            for direction in self.directions:
                words = range(len(tokens)) if direction == 0 else range(len(tokens) - 1, -1, -1)
                outputs: list = [None] * len(tokens)
                hidden, cell = state[direction, layer]
                for word in words:
                    x = lower[direction][word]
                    hidden, cell = self.step(direction, layer, x, hidden, cell)
                    outputs[word] = hidden + x if self.skip_connections and layer > 0 else hidden
                state[direction, layer] = hidden, cell
                lower[direction] = outputs
            layers.append([np.concatenate([lower[d][word] for d in self.directions]) for word in range(len(tokens))])
        return np.array(layers), state
