"""transformers' ConfigTester over our config."""

import unittest

import pytest

from elmo_hf import ElmoConfig
from tests.mixins.source import stock_tests
from tests.models import TINY

pytestmark = pytest.mark.medium

common = stock_tests("test_configuration_common")


class ConfigTest(unittest.TestCase):
    def test_the_config_is_as_any_other(self):
        properties = ["hidden_size", "num_hidden_layers"]  # not `num_attention_heads`: ELMo has none
        tester = common.ConfigTester(self, ElmoConfig, common_properties=properties, **TINY)
        tester.run_common_tests()
