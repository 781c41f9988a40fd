"""Changes that SONiC's switches tell of by gNMI, to the driver and to a client of others; and what is done without."""

import threading
import time

import pytest
from pygnmi.client import gNMIclient
from tests.circuits.switches import device, pair, served
from typer.testing import CliRunner

from wiresum.circuits.control import apply, watch
from wiresum.circuits.device import State
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.emulator import gnmi as emulator
from wiresum.circuits.emulator import gnmi_stream
from wiresum.circuits.emulator.server import HOST, Serving
from wiresum.circuits.gnmi import JSON_IETF, ON_CHANGE, SAMPLE, SERVICE, grpc, new, parsed, path
from wiresum.cli.main import app
from wiresum.errors import CircuitError, CircuitSessionError

GNMI = "sonic-gnmi"
STATES = ("sonic-db", "STATE_DB", "localhost", "OCS_PORT_TABLE")
PORTS = path(*STATES)
DARK_S = 0.3
"""Darkness in which a driver that asks again and again has asked a hundred times."""
WAIT_S = 10.0


def followed(own, tell, times=1):
    """What is asked of a device, by names of messages, while its new light is awaited; ports have light in the end."""
    asked = []
    with served(GNMI, own) as driver:
        for number in range(times):
            apply(driver, {pair(1, 2 + number)}, "1234")
            own.tap = lambda direction, data: asked.append(data.decode().split()[0]) if direction == ">" else None
            seen = [(port, state.state) for _, port, state in watch(driver, ["1"], tell=tell)]
            own.tap = lambda *_: None
            assert seen == [("1", State.DARK), ("1", State.LIT)]
    return asked


def test_who_watches_reads_once_at_first_and_once_for_each_change():
    told = []
    asked = followed(device(ports=4, dark_s=DARK_S), told.append)
    silent = 2  # A device that tells nothing is read all the same, after a quarter of a second.
    assert asked[0] == "SubscribeRequest"
    assert 4 <= asked.count("GetRequest") <= 4 + 2 * silent
    assert not told


def test_a_device_that_tells_no_changes_is_sampled(monkeypatch):
    monkeypatch.setattr(gnmi_stream, "MODES", {SAMPLE})
    monkeypatch.setattr(gnmi_stream, "LEAST_SAMPLE_S", 0.01)
    told = []
    asked = followed(device(ports=4, dark_s=DARK_S), told.append)
    assert asked[:2] == ["SubscribeRequest", "SubscribeRequest"]
    assert asked.count("GetRequest") <= 8
    assert not told


def test_a_device_that_tells_nothing_is_asked_again_and_again_which_is_said_once(monkeypatch):
    monkeypatch.setattr(gnmi_stream, "MODES", {SAMPLE})
    told = []
    asked = followed(device(ports=4, dark_s=DARK_S), told.append, times=2)
    assert asked.count("SubscribeRequest") == 2
    assert asked.count("GetRequest") > 20
    (line,) = told
    assert "unsupported subscription mode, 1" in line
    assert "invalid interval: 0.01 s is less than 1 s" in line
    assert line.endswith("; the device is asked every 2 ms instead")


def test_the_command_says_that_it_asks_again_and_again(monkeypatch):
    monkeypatch.setattr(gnmi_stream, "MODES", set())
    own = device(ports=4, dark_s=0.0)
    own.crossbar.order(0.0, [], [("1", "2"), ("2", "1")])
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        done = CliRunner().invoke(app, ["circuits", "watch", "--driver", serving.url(GNMI)])
    assert done.exit_code == 0, done.output
    assert "port 1      lit" in done.stdout
    assert done.stderr.count("the device is asked every 2 ms instead") == 1


def test_a_device_that_ends_a_subscription_is_asked_again_and_again(monkeypatch):
    async def nothing(*_):
        pass

    monkeypatch.setattr(gnmi_stream, "_follow", nothing)
    told = []
    asked = followed(device(ports=4, dark_s=DARK_S), told.append)
    assert asked.count("GetRequest") > 20
    (line,) = told
    assert "has ended the subscription; the device is asked every 2 ms instead" in line


def test_a_device_that_never_tells_all_is_given_up_in_time(monkeypatch):
    async def silent(*_):
        return []

    monkeypatch.setattr(gnmi_stream, "_begin", silent)
    with served(GNMI, device(ports=4), timeout=0.2) as driver:
        with pytest.raises(CircuitSessionError, match=r"no sync_response of a subscription in 0\.2 s"):
            driver.changes()
        assert set(driver.read().states) == set("1234")


def test_words_that_are_none_end_a_subscription():
    own = device(ports=4)
    with served(GNMI, own) as driver:
        driver.describe()
        own.mangle = lambda _: b"\xff"
        with pytest.raises(CircuitSessionError, match="tells what makes no sense"):
            driver.changes()


def test_a_change_between_two_waits_is_heard_and_silence_ends_with_its_time():
    own = device(ports=4, dark_s=0.0)
    with served(GNMI, own) as driver:
        changes = driver.changes()
        own.crossbar.order(own.clock(), [], [("1", "2")])
        changes.wait(WAIT_S)
        began_s = time.monotonic()
        changes.wait(0.05)
        assert 0.05 <= time.monotonic() - began_s < WAIT_S
        changes.close()
        with pytest.raises(CircuitError):
            changes.wait(WAIT_S)


def subscription(mode=ON_CHANGE, where=PORTS, **more):
    return new("Subscription", path=where, mode=mode, **more)


def request(*subscriptions, **more):
    return new(
        "SubscribeRequest",
        subscribe=new("SubscriptionList", **{"subscription": subscriptions, "encoding": JSON_IETF, **more}),
    )


REFUSED = {
    "no list": (new("SubscribeRequest"), "INVALID_ARGUMENT", "begins with a list of subscriptions"),
    "once": (request(subscription(), mode=1), "UNIMPLEMENTED", "subscriptions are streams"),
    "another encoding": (request(subscription(), encoding=0), "UNIMPLEMENTED", "shown as JSON_IETF"),
    "as the device likes": (request(subscription(0)), "INVALID_ARGUMENT", "unsupported subscription mode, 0"),
    "samples of a moment": (request(subscription(SAMPLE, sample_interval=10**8)), "INVALID_ARGUMENT", "0.1 s is less"),
    "a row": (request(subscription(where=path(*STATES, "1A"))), "UNIMPLEMENTED", "whole tables are told of"),
    "a table that is not there": (
        request(subscription(where=path(*STATES[:3], "PORT"))),
        "INVALID_ARGUMENT",
        "there is no table PORT in STATE_DB",
    ),
    "another origin": (request(subscription(where=path("openconfig", "x"))), "UNIMPLEMENTED", "paths are sonic-db:"),
}


def streamed(serving, first, *, stays):
    """Messages of a stream, whose client says nothing more or ends its side."""
    stay = threading.Event()

    def requests():
        yield first.SerializeToString()
        if stays:
            stay.wait(WAIT_S)

    address = Address.parse(serving.url(GNMI))
    with grpc.insecure_channel(f"{address.host}:{address.port}") as channel:
        try:
            yield from channel.stream_stream(f"/{SERVICE}/Subscribe")(requests(), timeout=WAIT_S)
        finally:
            stay.set()


@pytest.mark.parametrize("case", REFUSED)
def test_a_subscription_that_sonic_does_not_have_is_refused_with_the_reason(case):
    first, code, why = REFUSED[case]
    with Serving(device(ports=4), {GNMI: (HOST, 0)}) as serving, pytest.raises(grpc.RpcError) as refused:
        list(streamed(serving, first, stays=True))
    assert refused.value.code().name == code
    assert why in refused.value.details()


def test_the_end_of_the_clients_side_ends_a_subscription():
    with Serving(device(ports=4), {GNMI: (HOST, 0)}) as serving:
        told = [parsed("SubscribeResponse", data) for data in streamed(serving, request(subscription()), stays=False)]
    assert [one.sync_response for one in told] == [False, True]


def test_a_client_that_is_none_of_ours_is_told_of_changes():
    own = device(ports=4, dark_s=0.0)
    wanted = {"path": "sonic-db:/STATE_DB/localhost/OCS_PORT_TABLE", "mode": "on_change"}
    rows = {"path": "sonic-db:/CONFIG_DB/localhost/OCS_CROSS_CONNECT", "mode": "on_change"}
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        address = Address.parse(serving.url(GNMI))
        with gNMIclient((address.host, address.port), **emulator.LOGIN, insecure=True, skip_check=True) as client:
            for asked, first, changed in (
                (wanted, {f"{port}{side}" for port in "1234" for side in "AB"}, {"1A", "1B", "2A", "2B"}),
                (rows, {"1A-2B"}, {"1A-2B", "3A-4B"}),
            ):
                stream = client.subscribe2({"subscription": [asked], "mode": "stream", "encoding": "json_ietf"})
                assert set(_value(next(stream))) == first
                here = own.crossbar.connections
                own.crossbar.order(own.clock(), here, [("1", "2")] if not here else [("3", "4")])
                told = _value(next(stream))
                assert set(told) == changed
                stream.close()
    assert told["1A-2B"] == {}, "a row that has gone is told of without fields"


def test_samples_tell_all_rows_each_time_unless_they_leave_out_what_is_as_before(monkeypatch):
    monkeypatch.setattr(gnmi_stream, "LEAST_SAMPLE_S", 0.01)
    own = device(ports=4, dark_s=0.0)
    sampled = {"path": "sonic-db:/STATE_DB/localhost/OCS_PORT_TABLE", "mode": "sample", "sample_interval": 10**7}
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        address = Address.parse(serving.url(GNMI))
        with gNMIclient((address.host, address.port), **emulator.LOGIN, insecure=True, skip_check=True) as client:
            stream = client.subscribe2({"subscription": [sampled], "mode": "stream", "encoding": "json_ietf"})
            first = _value(next(stream))
            assert [_value(next(stream)) for _ in range(3)] == [first] * 3
            stream.close()


def _value(told):
    """A table as the client shows it, which puts what comes before `sync_response` together."""
    (update,) = told["update"]["update"]
    return update["val"]
