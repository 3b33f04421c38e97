"""What the daemon shows of itself is what tests/oracle has recorded: names, types and states."""
import difflib
import pathlib
import sys

import pytest
from conftest import NBSERVED

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))

import oracle  # noqa: E402


@pytest.mark.skipif(b"libssl" not in NBSERVED.read_bytes(), reason="this build has no OpenSSL")
def test_configurations_show_the_recorded_names_types_and_states():
    different = oracle.differences()
    lines = [line for file, (recorded, seen) in different.items()
             for line in difflib.unified_diff(recorded.splitlines(), seen.splitlines(), file, "this build", n=0,
                                              lineterm="")]
    assert not different, "tests/oracle/oracle.py --update records what is meant:\n" + "\n".join(lines)
