"""What the tests of conversions share."""

from tests.conversion.file_server import file_server

__all__ = ["file_server"]
