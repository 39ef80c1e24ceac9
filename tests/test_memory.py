"""What the system is told about memory: weights stay what they are, and what a call has freed serves the next one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo_hf.memory_elmo import aligned, give_back, is_mapped, new_beside

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its memory")

# How many pages come from the system when 3 MB are taken and written twelve times, and then all freed, again and again.
PAGES_TAKEN = """
import os, resource, sys, torch
from elmo_hf.memory_elmo import keep_working_memory
if "keep" in sys.argv:
    keep_working_memory()
def call():
    blocks = [torch.ones(3 * 2**18) for _ in range(12)]
torch.set_num_threads(1)
for _ in range(3):
    call()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    call()
print(os.confstr("CS_GNU_LIBC_VERSION"), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_weights_that_begin_anywhere_are_copied_to_where_products_are_fast():
    memory = torch.arange(100.0)
    assert aligned(memory) is memory
    shifted = memory[1:]
    assert aligned(shifted).data_ptr() % 64 == 0
    assert torch.equal(aligned(shifted), shifted)


def resident_megabytes() -> int:
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024


@on_linux
def test_mapped_weights_leave_memory_once_they_are_packed_and_can_be_read_again(tmp_path):
    """64 MB of weights: a file's pages can be had back from the file, so they need not stay."""
    torch.save({"weight": torch.randn(4096, 4096)}, tmp_path / "weight.pt")
    weight = torch.load(tmp_path / "weight.pt", mmap=True)["weight"]
    total = weight.sum()  # reads all of it
    assert is_mapped(weight)
    assert not is_mapped(weight.clone())
    before = resident_megabytes()
    give_back(weight)
    assert resident_megabytes() < before - 32
    assert weight.sum() == total


def test_memory_that_is_not_of_a_file_keeps_its_values():
    weight = torch.arange(2**20, dtype=torch.float32)
    give_back(weight)
    assert torch.equal(weight, torch.arange(2**20, dtype=torch.float32))


def pages_taken(*arguments: str) -> int:
    """In a process of its own: what was freed before decides what the C library keeps."""
    command = [sys.executable, "-c", PAGES_TAKEN, *arguments]
    library, _, pages = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if library != "glibc":
        pytest.skip("of glibc alone")
    return int(pages)


@on_linux
def test_what_a_call_has_freed_is_there_for_the_next_one():
    assert pages_taken("keep") < 500 < pages_taken()


@pytest.mark.parametrize("offset", [0, 1, 16, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_memory_beside_a_weight_begins_half_a_page_from_it(offset, dtype):
    weight = torch.zeros(5000, dtype=dtype)[offset:]
    memory = new_beside(weight, weight, 2, 3, 5)
    assert memory.shape == (2, 3, 5)
    assert memory.is_contiguous()
    assert (memory.data_ptr() - weight.data_ptr()) % 4096 == 2048
    assert new_beside(weight, torch.empty(1, device="meta"), 2, 3).shape == (2, 3)  # elsewhere it is any memory
