"""Training with the gradients of the words met alone comes to the same weights."""

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining
from elmo_hf.pretraining import PretrainingSettings
from elmo_hf.pretraining.sparse_gradients import clip_sparse_grad_norm_, use_sparse_gradients


def trained(sparse: bool, clip_norm: float, steps: int = 3) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The gradient's norm at each step, and the weights after them."""
    torch.manual_seed(0)
    sizes = {"char_filters": [[1, 4], [2, 4]], "cell_size": 8, "projection_size": 4, "num_highway_layers": 1}
    config = ElmoConfig(**sizes, vocab_size=100, softmax_type="sampled", softmax_samples=10)
    model = ElmoForPreTraining(config).train()
    if sparse:
        use_sparse_gradients(model)
    optimizer = PretrainingSettings.recipe("original").build_optimizer(model)
    clip = clip_sparse_grad_norm_ if sparse else torch.nn.utils.clip_grad_norm_
    norms = []
    for _ in range(steps):
        char_ids, labels = torch.randint(1, 262, (2, 5, 50)), torch.randint(0, 100, (2, 5))
        model(char_ids=char_ids, labels=labels, backward_labels=labels.flip(1)).loss.backward()
        assert model.softmax.weight.grad.is_sparse == sparse
        norms.append(clip(model.parameters(), clip_norm).item())
        optimizer.step()
        optimizer.zero_grad()
    return norms, model.state_dict()


@pytest.mark.parametrize("clip_norm", [0.1, 1000.0])
def test_sparse_and_dense_gradients_train_alike(clip_norm):
    torch.testing.assert_close(trained(True, clip_norm), trained(False, clip_norm), atol=1e-6, rtol=1e-5)
