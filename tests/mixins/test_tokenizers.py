"""transformers' TokenizerTesterMixin and its mixin for tokenizers in Rust over ours."""

import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import pytest

from elmo_hf import ElmoTokenizer
from tests.mixins.source import leave_out, stock_tests

pytestmark = pytest.mark.medium

common = stock_tests("test_tokenization_common")
backend = stock_tests("test_tokenizers_backend_mixin")
TEXT = (
    "This is a test . I was born in 92000 , and this is not false . Hello , how are you doing ? Very long text here ."
)


class ElmoTokenizerTests:
    """A saved tokenizer for the mixins to load. In their texts a special token is one, as it is on request."""

    tokenizer_class = rust_tokenizer_class = ElmoTokenizer
    from_pretrained_kwargs = {"split_special_tokens": False}

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        (cls.folder / "fixtures").mkdir()
        (cls.folder / "fixtures" / "sample_text.txt").write_text(TEXT)  # the distribution lacks it
        ElmoTokenizer().train_new_from_iterator([TEXT], vocab_size=100).save_pretrained(cls.folder)
        cls.from_pretrained_id = str(cls.folder)
        with mock.patch.object(common, "get_tests_dir", return_value=str(cls.folder)):
            super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)


MARKS_STAY = "a saved tokenizer's marks stay: with others the vectors would be others, and they are refused"


class TokenizerTest(ElmoTokenizerTests, common.TokenizerTesterMixin, unittest.TestCase):
    pass


class RustTokenizerTest(ElmoTokenizerTests, backend.TokenizersBackendTesterMixin, unittest.TestCase):
    pass


leave_out(
    TokenizerTest,
    {
        "test_added_tokens_serialization": MARKS_STAY,
        "test_bos_token_with_add_bos_token_*": MARKS_STAY,
        "test_batch_encode_dynamic_overflowing": "`char_ids` are three-dimensional",
        "test_chat_template_save_loading": "there is no chat with ELMo",
        "test_integration*": "the golden vectors' words are compared instead",
    },
)
leave_out(
    RustTokenizerTest,
    {
        "test_add_bos_token_without_bos_token": "every sentence has its boundaries",
        "test_training_new_tokenizer_with_special_tokens_change": MARKS_STAY,
    },
)
