"""transformers' ModelTesterMixin over the encoder, the language model and the heads."""

import unittest
from unittest import mock

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from tests.mixins.source import leave_out, stock_tests
from tests.models import random_words

pytestmark = pytest.mark.slow
common = stock_tests("test_modeling_common")
CLASSES = (ElmoModel, ElmoForPreTraining, ElmoForTokenClassification, ElmoForSequenceClassification)


class ElmoModelTester:
    """What the mixin asks about a model: a config, and inputs for it."""

    batch_size, seq_length, num_hidden_layers, hidden_size, num_labels = 3, 7, 2, 16, 3
    is_training = True

    def __init__(self, token_inputs: str):
        self.token_inputs = token_inputs

    def get_config(self) -> ElmoConfig:
        return ElmoConfig(
            token_inputs=self.token_inputs,
            vocab_size=99,
            pad_token_id=2,
            max_characters_per_token=10,
            char_embedding_size=4,
            char_filters=[[1, 4], [2, 8]],
            num_highway_layers=1,
            cell_size=16,
            projection_size=self.hidden_size // 2,
            dropout=0.0,
            elmo_dropout=0.0,
            classifier_dropout=0.0,
            freeze_bilm=False,
            task_layer_size=8,
            num_labels=self.num_labels,
        )

    def prepare_config_and_inputs_for_common(self):
        shape = self.batch_size, self.seq_length
        generator = np.random.default_rng(0)
        inputs = {
            "input_ids": torch.from_numpy(generator.integers(3, 99, shape)),
            "char_ids": random_words(generator, *shape, slots=10),
            "attention_mask": torch.ones(shape, dtype=torch.long),
        }
        if self.token_inputs == "words":
            del inputs["char_ids"]
        return self.get_config(), inputs

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


class ElmoModelTests(common.ModelTesterMixin):
    all_model_classes = CLASSES
    has_attentions = False
    token_inputs: str

    def setUp(self):
        self.model_tester = ElmoModelTester(self.token_inputs)
        # The mixin tells encoders, taggers and classifiers by the names of classes that come with transformers.
        for mapping, model in (
            (common.MODEL_MAPPING_NAMES, ElmoModel),
            (common.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES, ElmoForTokenClassification),
            (common.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, ElmoForSequenceClassification),
        ):
            self.enterContext(mock.patch.dict(mapping, elmo=model.__name__))

    def _prepare_for_class(self, inputs_dict, model_class, return_labels=False):
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels)
        if return_labels and model_class is ElmoForPreTraining:
            inputs["labels"] = inputs["backward_labels"] = torch.zeros_like(inputs["input_ids"])
        return inputs


NO_ATTENTION = "ELMo has no attention"
NO_POSITIONS = "a recurrent network has no position embeddings"
NO_EXPERTS = "there are no experts"
NO_PICTURES = "words are all that ELMo reads"
CANNOT_APPLY = {
    "test_attention_outputs": NO_ATTENTION,
    "test_attn_implementation_composite_models": NO_ATTENTION,
    "test_can_set_attention_dynamically*": NO_ATTENTION,
    "test_eager_matches_sdpa_inference*": NO_ATTENTION,
    "test_flash_attn_*": NO_ATTENTION,
    "test_flex_attention_with_grads": NO_ATTENTION,
    "test_sdpa_*": NO_ATTENTION,
    "test_sliding_window_mask": NO_ATTENTION,
    "test_model_rope_*": NO_POSITIONS,
    "test_resize_position_vector_embeddings": NO_POSITIONS,
    "test_vision_axial_rope": NO_POSITIONS,
    "test_eager_matches_batched_and_grouped_inference*": NO_EXPERTS,
    "test_moe_models_record_router_logits": NO_EXPERTS,
    "test_output_router_logits_from_config": NO_EXPERTS,
    "test_get_audio_features_*": NO_PICTURES,
    "test_get_image_features_*": NO_PICTURES,
    "test_get_text_features_*": "the words' vectors are the output itself",
    "test_get_video_features_*": NO_PICTURES,
    "test_capture_outputs_decorator": "the layers are collected by hand: `last_hidden_state` is their mix",
    "test_can_capture_specific_layers_hidden_states": "the layers are collected by hand",
    "test_format_of_can_record_outputs": "the layers are collected by hand",
    "test_causal_lm_loss_honors_shift_labels": "two language models share their rows: labels are never shifted",
    "test_encoder_decoder_loss_no_double_shift": "there is no decoder",
    "test_internal_model_config_and_subconfig_are_same": "one config has all fields",
    "test_keep_in_fp32_modules*": "no module needs another precision than the rest",
    "test_can_load_from_already_mapped_keys": "no stored name is changed on loading",
    "test_reverse_loading_mapping": "no stored name is changed on loading",
    "test_tp_plan_matches_params": "there is no tensor-parallel plan",
    "test_tied_head_has_a_tp_plan_entry": "there is no tensor-parallel plan",
}
WITHOUT_WORDS = {
    "test_inputs_embeds*": "the mixin replaces `input_ids`, and knows nothing of `char_ids` beside them",
    "test_load_with_mismatched_shapes": "an encoder of characters is the same whatever `vocab_size` is",
    "test_model_get_set_embeddings": "the table of characters is part of the encoder, and is not exchanged",
    "test_resize_*": "there is no table of words",
}


class CharacterModelTest(ElmoModelTests, unittest.TestCase):
    token_inputs = "characters"
    test_resize_embeddings = False


class WordModelTest(ElmoModelTests, unittest.TestCase):
    token_inputs = "words"


leave_out(CharacterModelTest, CANNOT_APPLY | WITHOUT_WORDS)
leave_out(WordModelTest, CANNOT_APPLY)
