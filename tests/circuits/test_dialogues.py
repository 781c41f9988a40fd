"""What drivers and devices say to each other, word by word, and what others say to the emulated devices.

`dialogues/PROTOCOL.txt` is the record of one session. A change in it is a change of what a real device would get:
compare it with the maker's documentation before you record it anew (`WIRESUM_RECORD=1`).
"""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.circuits.switches import PROTOCOLS, Clock, crossbar, device, pair, served

from wiresum.circuits.control import apply
from wiresum.circuits.device import both_ways
from wiresum.circuits.drivers import connect
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.emulator.server import HOST, Device, Serving

DIALOGUES = Path(__file__).parent / "dialogues"
WAIT_S = 20


def shown(direction, data):
    text = data.decode().replace("\r\n", "\n")
    text = re.sub(r"Host: 127.0.0.1:\d+", "Host: 127.0.0.1", text)
    return "\n".join(f"{direction} {line}".rstrip() for line in text.rstrip("\n").split("\n"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_session_is_word_for_word_what_was_recorded(protocol):
    clock, told = Clock(), []
    own = Device(crossbar(4), clock=clock, tap=lambda direction, data: told.append(shown(direction, data)))
    own.crossbar.faults.failing["4"] = "mirror 7"
    with served(protocol, own) as driver:
        driver.describe()
        apply(driver, {pair(1, 2)}, "1234")
        clock.now_s += 1
        apply(driver, {pair(1, 3), pair(2, 4)}, "1234")
        clock.now_s += 1
        driver.read()
    record = "\n".join(told) + "\n"
    file = DIALOGUES / f"{protocol}.txt"
    if os.environ.get("WIRESUM_RECORD"):
        file.write_text(record)
    assert record == file.read_text()


def curl(url, *options):
    """An independent client of HTTP: status and body."""
    command = ["curl", "-sS", "-u", "admin:root", "-w", "\n%{http_code}", *options, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body) if body else None


@pytest.mark.needs("curl")
def test_curl_reads_and_orders_by_restconf():
    own = device(ports=8)
    with Serving(own, {"polatis-rest": (HOST, 0)}) as serving:
        base = f"http://{serving.url('polatis-rest').partition('://')[2]}/api/data/optical-switch:"
        one = {"optical-switch:cross-connects": {"pair": [{"ingress": 1, "egress": 13}, {"ingress": 5, "egress": 9}]}}
        kind = ["-H", "Content-Type: application/yang-data+json"]
        assert curl(f"{base}cross-connects", "-X", "PUT", *kind, "-d", json.dumps(one)) == (204, None)
        assert own.crossbar.connections == both_ways({pair(1, 5)})
        assert curl(f"{base}cross-connects") == (200, one)
        assert curl(f"{base}cross-connects/pair=5")[1] == {"optical-switch:pair": [{"ingress": 5, "egress": 9}]}
        assert curl(f"{base}cross-connects/pair=5", "-X", "DELETE") == (204, None)
        assert own.crossbar.connections == {("1", "5")}
        two = json.dumps({"optical-switch:pair": [{"ingress": 2, "egress": 13}]})
        assert curl(f"{base}cross-connects", "-X", "POST", *kind, "-d", two)[0] == 409
        assert curl(f"{base}cross-connects", "-X", "PUT", *kind, "-d", "{")[0] == 400
        assert curl(f"{base}elsewhere")[0] == 404
        assert curl(f"{base}cross-connects", "-u", "guest:guest")[0] == 401
        assert curl(f"{base}cross-connects", "-X", "PUT", *kind, "-H", 'If-Match: "0"', "-d", json.dumps(one))[0] == 412


def typed(url, *lines):
    """What a person at a terminal sees who types these lines."""
    address = Address.parse(url)
    with socket.create_connection((address.host, address.port), WAIT_S) as terminal:
        for line in lines:
            terminal.sendall(line.encode())
        terminal.shutdown(socket.SHUT_WR)
        seen = b""
        while data := terminal.recv(4096):
            seen += data
    return seen.decode()


def test_a_person_orders_by_scpi():
    own = device(ports=16)
    with Serving(own, {"polatis-scpi": (HOST, 0)}) as serving:
        url = serving.url("polatis-scpi")
        assert typed(url, ":oxc:swit:conn:add (@1,2),(@18,17)\n", ":oxc:swit:conn:stat?\n") == "(@1,2),(@18,17)\n"
        assert typed(url, ":OXC:SWIT:CONN:ONLY (@3), (@20); STAT?\n", ":syst:err?\n").endswith('0,"No error"\n')
        assert own.crossbar.connections == {("3", "4")}
        assert "-222" in typed(url, ":oxc:swit:conn:add (@3),(@21);:syst:err?\n")
        assert "-222" in typed(url, ":oxc:swit:conn:add (@0),(@21);:syst:err?\n")
        assert own.crossbar.connections == {("3", "4")}


def test_a_person_orders_by_tl1():
    own = device(ports=4)
    with Serving(own, {"calient-tl1": (HOST, 0)}) as serving:
        url = serving.url("calient-tl1")
        assert "DENY" in typed(url, "RTRV-CRS::,:7;")
        seen = typed(url, "ACT-USER::admin:1::pxc***;", "ent-crs::1,2:2::,2WAY;", "RTRV-CRS::,:3;", "dlt-crs::3,4:4;")
    assert own.crossbar.connections == both_ways({pair(1, 2)})
    assert "M  2 COMPLD" in seen
    assert "CONNID=1>2" in seen
    assert re.search(r"M  4 DENY\s+/\* there is no connection 3,4 \*/", seen)
    assert seen.count("REPT EVT") == 4


def test_a_person_asks_the_emulator_in_its_own_words():
    own = device(ports=4, dark_s=0.0)
    with Serving(own, {"emulated": (HOST, 0)}) as serving:
        url = serving.url("emulated")
        asked = [
            {"do": "change", "add": [["1", "2"]], "remove": []},
            {"do": "fail", "port": "3", "reason": "mirror 7"},
            {"do": "change", "add": [["3", "4"]], "remove": []},
            {"do": "read"},
            {"do": "change", "add": [["1", "4"]], "remove": []},
            {"do": "dance"},
        ]
        told = [json.loads(line) for line in typed(url, *(json.dumps(one) + "\n" for one in asked), "?\n").splitlines()]
    assert told[0] == {"answer": {"generation": 1}}
    assert told[3]["answer"]["connections"] == [["1", "2"], ["3", "4"]]
    assert told[3]["answer"]["states"]["2"] == ["lit", ""]
    assert told[3]["answer"]["states"]["4"] == ["failed", "mirror 7"]
    assert [sorted(one) for one in told[4:]] == [["error"]] * 3


BRIDGE = """#!{python}
import socket, sys, threading
far = socket.create_connection(("{host}", {port}))
assert sys.argv[-2:] == ["box", "sh"] and "-T" in sys.argv, sys.argv

def inward():
    while data := far.recv(4096):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

threading.Thread(target=inward, daemon=True).start()
while line := sys.stdin.buffer.readline():
    far.sendall(line)
"""


def test_sonic_runs_over_the_program_ssh(tmp_path, monkeypatch):
    own = device(ports=4)
    with Serving(own, {"sonic-tcp": (HOST, 0)}) as serving:
        far = Address.parse(serving.url("sonic-tcp"))
        program = tmp_path / "ssh"
        program.write_text(BRIDGE.format(python=sys.executable, host=far.host, port=far.port))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        driver = connect("sonic://box")
        assert apply(driver, {pair(1, 2)}, "1234").attempts == 1
        driver.close()
    assert own.crossbar.connections == both_ways({pair(1, 2)})
