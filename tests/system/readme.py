"""The commands of README.md, by what runs them: test_readme.py and tests/vm/test_systemd.py."""

import pathlib
import re

README = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()


def lines(block):
    """Commands of a block of sh, without comments."""
    return [line.split(" #")[0].strip() for line in block.splitlines()]


BLOCKS = [lines(block) for block in re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.S)]
# In a new minimal Debian: packaging/check_newcomer.sh.
OF_NEWCOMER = BLOCKS[0]
# In a container under systemd, in this order, with the drop-in.
OF_SERVICE = [command for block in BLOCKS[1:] for command in block]
DROP_IN, KEYS = re.search(r"`(/etc/nbserved/conf.d/\S+)`:\n\n```ini\n(.*?)```", README, re.S).groups()
# All: these, what stands behind a `$`, and what tables and sentences have.
COMMANDS = list(dict.fromkeys([*OF_NEWCOMER, *OF_SERVICE, *re.findall(r"^\$ (.+)$", README, re.M),
                               *re.findall(r"`((?:build/|sudo |make )[^`]+)`", README)]))  # fmt: skip
OF_BUILD = [command for command in COMMANDS if command.startswith("build/")]
# Shown on the whole screen, until its user ends it: test_top.py runs it on a terminal.
OF_TERMINAL = ["sudo nbctl top"]
