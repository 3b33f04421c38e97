#!/usr/bin/python3
"""check_man.py BUILD [--update]: are the man pages true?

The table of keys in nbserved.ini(5) is what the daemon prints, every option and command of the
programs is in their pages, every figure in nbbench(1) with the heading of its column, and every
name of the control interface is in nbserved-control(7), and the other way round.  --update writes the table of keys.
"""
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
MAN = TOP / "man"
BEGIN = '.\\" The keys: written by tools/check_man.py --update, checked by make lint.\n'
END = '.\\" End of the keys.\n'
CONFIG = """[server]
control = {socket}
[listener all]
address = 127.0.0.1:0
engine = epoll
service = echo
"""


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True).stdout


def update(daemon):
    page = MAN / "nbserved.ini.5"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + output(daemon, "--dump-keys") + END + rest.split(END)[1])


def check_keys(daemon):
    if (MAN / "nbserved.ini.5").read_text().split(BEGIN)[1].split(END)[0] != output(daemon, "--dump-keys"):
        yield "nbserved.ini.5: its table has changed: run tools/check_man.py BUILD --update"


def check_figures():
    """As the macros of the list make them: "cpu_ns" "_per_request"."""
    text = output("cc", "-E", "-P", "-xc", "-DFIGURE(id, formula, ...)=__VA_ARGS__;", TOP / "lib/rows/figure_list.h")
    figures = set()
    for figure in re.findall(r"\.name = .*?;", text, re.S):
        name, title, unit = ("".join(re.findall(r'"(.*?)"', re.search(rf'\.{member} = ((?:"[^"]*"\s*)+)', figure)[1]))
                             for member in ("name", "title", "unit"))
        figures.add(f"{name} ({title}{'' if unit.startswith('/') or not unit else ' '}{unit})")
    page = (MAN / "nbbench.1").read_text().split(".Sh COLUMNS")[1].split(".Sh RESULT")[0]
    documented = {f"{name} ({heading})" for name, heading in re.findall(r"^\.It Va (\S+) Pq (.*)", page, re.M)}
    notes = {"listener (listener)", "engine (engine)", "vs (vs 1st)", "verdict (verdict)"}
    yield from check_names("nbbench(1)", "figure", documented - notes, figures)


def options_in_help(text):
    return set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.M))


def options_in_page(page):
    return set(re.findall(r"Fl -([a-z][a-z-]+)", page))


def check_names(page, kind, have, want):
    for name in sorted(want - have):
        yield f"{page}: {kind} '{name}' is missing"
    for name in sorted(have - want):
        yield f"{page}: there is no {kind} '{name}'"


def check_daemon(daemon):
    page = (MAN / "nbserved.8").read_text()
    yield from check_names("nbserved(8)", "option", options_in_page(page),
                           options_in_help(output(daemon, "--help")))
    words = set()
    for key in ("engine", "service"):
        values = re.search(rf"^\.It Cm {key} .*?\.br\n\\&(.*?);", output(daemon, "--dump-keys"), re.M | re.S)
        words |= set(values[1].replace("\\-", "-").replace(" or ", ", ").split(", "))
    yield from check_names("nbserved(8)", "engine or service",
                           set(re.findall(r"^\.It Cm (\S+)", page, re.M)), words)


def check_program(program):
    """Of a program of commands."""
    name = f"{program.name}(1)"
    page = (MAN / f"{program.name}.1").read_text()
    summary = output(program, "--help")
    commands = set(re.findall(r"^  ([a-z-]+) ", summary.split("Options")[0], re.M))
    yield from check_names(name, "command",
                           set(re.findall(r"^\.It Cm ([a-z-]+)", page, re.M)), commands)
    options = options_in_help(summary).union(
        *(options_in_help(output(program, command, "--help")) for command in commands))
    yield from check_names(name, "option", options_in_page(page), options)


def call(path, method, **parameters):
    """One Varlink call over a connection of its own."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(json.dumps({"method": method, "parameters": parameters}).encode() + b"\0")
        reply = b""
        while not reply.endswith(b"\0"):
            data = client.recv(65536)
            assert data, f"{method}: no answer"
            reply += data
    return json.loads(reply[:-1])["parameters"]


def answers(path):
    """Bound and listening: a socket that is only bound refuses."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def ask_daemon(daemon):
    """The interface's description, and a statistics document."""
    with tempfile.TemporaryDirectory() as where:
        path, config = Path(where) / "control.sock", Path(where) / "nbserved.ini"
        config.write_text(CONFIG.format(socket=path))
        process = subprocess.Popen([str(daemon), "-c", str(config)], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while not answers(path):
                assert process.poll() is None and time.monotonic() < deadline, "it does not start"
                time.sleep(0.01)
            return (call(path, "org.varlink.service.GetInterfaceDescription",
                         interface="org.nbserved.Control")["description"],
                    call(path, "org.nbserved.Control.GetStats"))
        finally:
            process.terminate()
            process.wait()


def check_control(daemon):
    page = (MAN / "nbserved-control.7").read_text()
    description, stats = ask_daemon(daemon)
    code = re.sub(r"#.*", "", description)
    fields = set(re.findall(r"(\w+):", code)) | set(stats["listeners"][0]["cost"]["syscalls"])
    doctor = subprocess.run([daemon, "--doctor", "--json"], capture_output=True, text=True).stdout
    features = {check["name"].split(": ")[1] for check in json.loads(doctor)["checks"]
                if check["value"] in ("yes", "no") and ": " in check["name"]}
    documented = {word for line in re.findall(r"(?:^\.|^\.It )Va (.*)", page, re.M)
                  for word in re.findall(r"\w+", line)}
    protocol = {"method", "parameters", "more", "continues", "error"}
    yield from check_names("nbserved-control(7)", "field", documented - protocol - features,
                           fields - protocol - features)
    yield from check_names("nbserved-control(7)", "feature", documented & features, features)
    yield from check_names("nbserved-control(7)", "method",
                           set(re.findall(r"^\.It Fn (\w+)", page, re.M)),
                           set(re.findall(r"^method (\w+)", code, re.M)))
    for error in re.findall(r"^error (\w+)", code, re.M):
        if f".It Cm {error}\n" not in page:
            yield f"nbserved-control(7): error '{error}' is missing"


def main():
    build = Path(sys.argv[1])
    daemon, nbctl, nbbench = build / "nbserved", build / "nbctl", build / "nbbench"
    if "--update" in sys.argv:
        update(daemon)
    problems = [*check_keys(daemon), *check_figures(), *check_daemon(daemon), *check_program(nbctl), *check_program(nbbench),
                *check_control(daemon)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
