"""Every mutant of the copy, written and named, before any of them is run.

    python -m tests.mutation.generate

Runs in the folder of the copy. `mutmut run` makes the mutants and runs them in one go; a sample
can only be drawn in between.
"""

from __future__ import annotations

from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths

if __name__ == "__main__":
    set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    setup_source_paths()
    create_mutants(max_children=1)
