"""
Exports models to other runtimes: `to_onnx` writes a folder with the ONNX graph of an encoder, a tagger or a classifier,
its tokenizer, and a program that runs them without torch.
"""

from .onnx_folder import OnnxExport, to_onnx

__all__ = ["OnnxExport", "to_onnx"]
