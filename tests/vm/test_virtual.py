"""What virtual.py makes of the results of a VM, without one."""
import subprocess
import sys

import pytest
from virtual import check, names_in, read_results

ONE = "import pytest\ndef test_same(): pass\n@pytest.mark.skip(reason='no device')\ndef test_skipped(): pass\n"
OTHER = "def test_same(): assert False, 'wrong'\n"


def test_a_skipped_test_is_skipped_and_the_same_name_in_two_files_is_two_tests(tmp_path):
    files = [tmp_path / "inside_one.py", tmp_path / "inside_other.py"]
    for file, text in zip(files, (ONE, OTHER)):
        file.write_text(text)
    subprocess.run([sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={tmp_path}/results.xml",
                    *files], cwd=tmp_path, stdout=subprocess.DEVNULL)
    results = read_results(tmp_path / "results.xml")
    assert sorted(results) == sorted(names_in(files))
    check(results, "inside_one::test_same")
    with pytest.raises(pytest.skip.Exception, match="no device"):
        check(results, "inside_one::test_skipped")
    with pytest.raises(AssertionError, match="wrong"):
        check(results, "inside_other::test_same")
