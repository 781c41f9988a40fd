"""SONiC by gNMI: TLS and logins, what the emulated device refuses, and what a client of others says to it."""

import subprocess
import sys
from functools import partial

import pytest
from pygnmi.client import gNMIclient, gNMIException
from pygnmi.spec.v080 import gnmi_pb2
from tests.circuits.certificates import Authority
from tests.circuits.switches import device, pair, served

from wiresum.circuits import gnmi as messages
from wiresum.circuits.control import apply
from wiresum.circuits.device import both_ways
from wiresum.circuits.drivers import connect
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.gnmi_channel import PASSWORD, GnmiChannel
from wiresum.circuits.emulator import gnmi as emulator
from wiresum.circuits.emulator.server import HOST, Serving
from wiresum.circuits.gnmi import JSON_IETF, grpc, new, path, typed
from wiresum.errors import CircuitError, CircuitSessionError

GNMI = "sonic-gnmi"
TABLE = "sonic-db:/CONFIG_DB/localhost/OCS_CROSS_CONNECT"
SECRET = emulator.LOGIN["password"]


@pytest.fixture
def secured(tmp_path, monkeypatch):
    """A function that serves a device by TLS, and the authority that signed its certificate for `switch`."""
    authority = Authority(tmp_path)
    key, certificate = authority.issue("switch")
    pairs = [(key.read_bytes(), certificate.read_bytes())]
    credentials = grpc.ssl_server_credentials(pairs, authority.file.read_bytes(), require_client_auth=True)
    monkeypatch.setattr(emulator, "serve", partial(emulator.serve, credentials=credentials))
    key, certificate = authority.issue("driver")
    return authority, {"ca": authority.file, "key": key, "cert": certificate, "name": "switch"}


def url(serving, user="", **options):
    plain = serving.url(GNMI, **options)
    return plain.replace("://", f"://{user}@") if user else plain


def test_a_device_with_a_certificate_is_ordered_by_who_has_one_and_a_login(secured, tmp_path, monkeypatch):
    _, options = secured
    own = device()
    (tmp_path / "password").write_text(f"{SECRET}\n")
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        for wanted, more in (({pair(1, 2)}, {"password-file": tmp_path / "password"}), ({pair(1, 3)}, {})):
            driver = connect(url(serving, "admin", **options, **more) if more else url(serving, "admin", **options))
            apply(driver, wanted, "1234")
            driver.close()
            assert own.crossbar.connections == both_ways(wanted)
            monkeypatch.setenv(PASSWORD, SECRET)


@pytest.mark.parametrize("lacking", ["ca", "key", "name"])
def test_who_cannot_be_trusted_is_named_and_gets_no_order(secured, lacking):
    """Another authority, no certificate of the driver's own, and a certificate for another name."""
    _, options = secured
    without = ("key", "cert") if lacking == "key" else (lacking,)
    own = device()
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        address = serving.url(
            GNMI, timeout=2, **{name: value for name, value in options.items() if name not in without}
        )
        with pytest.raises(CircuitSessionError, match=r"sonic-gnmi://127\.0\.0\.1: .*certificate"):
            apply(connect(address), {pair(1, 2)}, "12")
        insecure = connect(serving.url(GNMI, insecure="yes", timeout=2))
        with pytest.raises(CircuitSessionError, match="does it speak gNMI without TLS"):
            insecure.read()
    assert own.crossbar.orders == 0


def test_a_wrong_password_is_refused_and_is_in_no_error(secured, monkeypatch):
    _, options = secured
    monkeypatch.setenv(PASSWORD, "let me in")
    denied = pytest.raises(CircuitError, match="refuses Capabilities: UNAUTHENTICATED")
    with Serving(device(), {GNMI: (HOST, 0)}) as serving, denied as refused:
        connect(url(serving, "admin", **options)).describe()
    assert "let me in" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("sonic-gnmi://admin:hidden@h", "everybody may read a password in an address"),
        ("sonic-gnmi://admin@h", "user admin has no password; set WIRESUM_GNMI_PASSWORD"),
        ("sonic-gnmi://admin@h?insecure=yes", "without TLS everybody on the way may read a password"),
        ("sonic-gnmi://admin@h?password-file=/nowhere", "password-file=/nowhere cannot be read"),
        ("sonic-gnmi://h?insecure=maybe", "insecure=maybe is neither yes nor no"),
        ("sonic-gnmi://h?ca=/nowhere", "ca=/nowhere cannot be read"),
        (f"sonic-gnmi://h?key={__file__}", "a certificate needs its key; give both"),
        ("sonic-gnmi://h?ca=/dev/zero", r"ca=/dev/zero cannot be read \(is a device, not a regular file\)"),
        ("sonic-gnmi://admin@h?password-file=/", r"cannot be read \(is a directory, not a regular file\)"),
        ("sonic-gnmi://h?timeout=soon", "timeout=soon is not a number"),
    ],
)
def test_a_bad_address_is_refused_before_anybody_is_called(address, named, monkeypatch):
    monkeypatch.delenv(PASSWORD, raising=False)
    with pytest.raises(CircuitError, match=named) as refused:
        connect(address)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("password", ["pässword", "two\nlines", "zero\0"])
def test_a_password_that_no_call_can_carry_is_refused_and_not_shown(password, tmp_path):
    (tmp_path / "password").write_text(password)
    with pytest.raises(CircuitError, match="printable ASCII characters alone") as refused:
        connect(f"sonic-gnmi://admin@h?password-file={tmp_path / 'password'}")
    assert password not in str(refused.value)


def test_an_order_is_one_set_deletions_first():
    told = []
    own = device(ports=4)
    own.tap = lambda direction, data: told.append(data) if direction == ">" else None
    with served(GNMI, own) as driver:
        apply(driver, {pair(1, 2)}, "1234")
        told.clear()
        apply(driver, {pair(1, 3)}, "1234")
    (order,) = [one.decode() for one in told if one.startswith(b"SetRequest")]
    assert order.count("delete {") == order.count("update {") == 2
    assert order.rindex("delete {") < order.index("update {")
    assert own.crossbar.orders == 2


def test_what_a_set_cannot_do_as_a_whole_is_not_done_at_all():
    own = device(ports=4)
    own.crossbar.order(0.0, [], [("1", "2")])
    with served(GNMI, own) as driver:
        with pytest.raises(CircuitError, match="refuses Set: UNKNOWN there is a connection out of port 2 already"):
            driver.change([], [("4", "3"), ("3", "2")])
        with pytest.raises(CircuitError, match="there is a connection into port 3 already"):
            driver.change([("1", "2")], [("3", "4"), ("3", "2")])
    assert own.crossbar.connections == {("1", "2")}


PORTS = path("sonic-db", "CONFIG_DB", "localhost", "OCS_PORT")
ROW = path("sonic-db", "CONFIG_DB", "localhost", "OCS_CROSS_CONNECT", "1A-2B")
VALUE = typed({"a_side": "1A", "b_side": "2B"})


def _get(*paths, **more):
    return "Get", new("GetRequest", **{"path": paths, "encoding": JSON_IETF, **more})


def _update(where, value):
    return "Set", new("SetRequest", update=[new("Update", path=where, val=value)])


REFUSED = {
    "another encoding": (_get(PORTS, encoding=0), "UNIMPLEMENTED tables are shown as JSON_IETF"),
    "a part of the data": (_get(PORTS, type=1), "UNIMPLEMENTED there is all data, or none"),
    "two databases": (
        _get(PORTS, path("sonic-db", "STATE_DB", "localhost", "OCS_PORT_TABLE")),
        "UNIMPLEMENTED Target conflict in path",
    ),
    "another origin": (_get(path("openconfig", "interfaces")), "UNIMPLEMENTED paths are sonic-db:"),
    "a key in brackets": (
        _get(new("Path", origin="sonic-db", elem=[new("PathElem", name="p", key=[new("KeyEntry", key="k")])])),
        "UNIMPLEMENTED paths are sonic-db:",
    ),
    "another instance": (_get(path("sonic-db", "CONFIG_DB", "asic0", "OCS_PORT")), "no table and no row of localhost"),
    "a whole database": (_get(path("sonic-db", "CONFIG_DB", "localhost")), "no table and no row of localhost"),
    "a table that is not there": (
        _get(path("sonic-db", "CONFIG_DB", "localhost", "PORT")),
        "UNKNOWN there is no table PORT in CONFIG_DB",
    ),
    "a table without rows": (
        _get(path("sonic-db", "CONFIG_DB", "localhost", "OCS_CROSS_CONNECT")),
        "NOT_FOUND Failed to find CONFIG_DB OCS_CROSS_CONNECT",
    ),
    "a Set of another table": (_update(PORTS, VALUE), "UNIMPLEMENTED /OCS_PORT: only rows"),
    "other sides than the name says": (
        _update(ROW, typed({"a_side": "1A", "b_side": "3B"})),
        "UNKNOWN 1A-2B has other",
    ),
    "a row without sides": (_update(ROW, typed({})), "INVALID_ARGUMENT KeyError"),
    "a value that is no JSON": (_update(ROW, new("TypedValue", json_ietf_val=b"{")), "INVALID_ARGUMENT"),
    "a value in another type": (_update(ROW, new("TypedValue", string_val="1A")), "INVALID_ARGUMENT"),
    "an A side to an A side": (
        _update(path("sonic-db", "CONFIG_DB", "localhost", "OCS_CROSS_CONNECT", "1A-2A"), VALUE),
        "UNKNOWN 1A-2A is no cross-connect from a side A to a side B",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_emulated_device_refuses_what_sonic_refuses_and_says_why(case):
    (method, request), named = REFUSED[case]
    own = device(ports=4)
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        channel = GnmiChannel(Address.parse(serving.url(GNMI)))
        with pytest.raises(CircuitError, match=named):
            channel.ask(method, request)
        channel.close()
    assert own.crossbar.orders == 0


def test_a_path_may_be_cut_into_a_prefix_and_a_rest():
    whole = _get(path("sonic-db", "STATE_DB", "localhost", "OCS_PORT_TABLE"))
    parts = _get(path("", "OCS_PORT_TABLE"), prefix=path("sonic-db", "STATE_DB", "localhost"))
    with Serving(device(ports=4), {GNMI: (HOST, 0)}) as serving:
        channel = GnmiChannel(Address.parse(serving.url(GNMI)))
        told = [channel.ask(*asked).notification[0].update[0].val for asked in (whole, parts)]
        channel.close()
    assert told[0] == told[1]
    assert set(messages.content(told[0])) == {f"{port}{side}" for port in "1234" for side in "AB"}


def test_a_device_that_shows_no_json_is_no_sonic_and_is_asked_again_each_time():
    own = device(ports=4)
    with served(GNMI, own) as driver:
        own.mangle = lambda _: new("CapabilityResponse", gNMI_version="0.8.0").SerializeToString()
        for _ in range(2):
            with pytest.raises(CircuitError, match=r"speaks gNMI 0\.8\.0 without JSON_IETF; it is no SONiC"):
                driver.read()
        own.mangle = lambda answer: answer
        assert set(driver.describe().sides) == set("1234")


def test_another_service_at_the_port_is_an_error_by_name():
    with Serving(device(), {"calient-tl1": (HOST, 0)}) as serving:
        address = serving.url("calient-tl1", insecure="yes", timeout=1).replace("calient-tl1", GNMI)
        with pytest.raises(CircuitSessionError, match=r"sonic-gnmi://127\.0\.0\.1: .*; is it there"):
            connect(address).describe()


def test_a_port_that_is_taken_is_named_and_one_that_was_left_can_be_had_again():
    own = device(ports=4)
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        there, driver = serving.addresses, connect(serving.url(GNMI))
        with pytest.raises(CircuitError, match=f"sonic-gnmi cannot be served at {HOST}:{there[GNMI][1]}"):
            Serving(own, there).__enter__()
        apply(driver, {pair(1, 2)}, "1234")
    for wanted in ({pair(1, 3)}, {pair(1, 4)}):
        with pytest.raises(CircuitSessionError, match=HOST):
            driver.read()
        with Serving(own, there):
            apply(driver, wanted, "1234")
            assert own.crossbar.connections == both_ways(wanted)
    driver.close()


def test_a_driver_without_grpc_says_what_to_install():
    program = "import sys; sys.modules['grpc'] = None; from wiresum.circuits.drivers import connect; {}"
    asked = [sys.executable, "-c", program.format("connect('sonic-gnmi://h')")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert "SupportError: gNMI needs gRPC" in done.stderr
    assert "pip install 'wiresum[gnmi]'" in done.stderr
    other = [sys.executable, "-c", program.format("connect('emulated://h')")]
    subprocess.run(other, capture_output=True, check=True)


def published(name):
    """Fields of a message as OpenConfig has published it: number, type, whether repeated, and values or name."""
    return {field.name: described(field) for field in gnmi_pb2.DESCRIPTOR.message_types_by_name[name].fields}


def described(field):
    values = {value.name: value.number for value in field.enum_type.values} if field.enum_type else None
    kind = field.message_type.name if field.message_type else None
    return field.number, field.type, field.is_repeated, values, kind


@pytest.mark.parametrize("name", [name for name in messages.MESSAGES if name != "KeyEntry"])
def test_messages_are_those_that_are_published(name):
    theirs = published(name)
    for field in messages.CLASSES[name].DESCRIPTOR.fields:
        number, kind, repeated, values, of = described(field)
        known = theirs[field.name]
        assert (number, kind, repeated, of) == (*known[:3], known[4])
        assert (values or {}).items() <= (known[3] or {}).items()


def entry(one, other):
    """A row as a client writes it: its path, and its fields."""
    return f"{TABLE}/{one}A-{other}B", {"a_side": f"{one}A", "b_side": f"{other}B"}


def test_a_client_that_is_none_of_ours_reads_and_orders():
    own = device(ports=4, dark_s=0.0)
    with Serving(own, {GNMI: (HOST, 0)}) as serving:
        address = Address.parse(serving.url(GNMI))
        target, login = (address.host, address.port), emulator.LOGIN
        with gNMIclient(target, **login, insecure=True, skip_check=True) as client:
            assert client.capabilities()["supported_encodings"] == ["json_ietf"]
            client.set(update=[entry(1, 2), entry(2, 1)], encoding="json_ietf")
            assert own.crossbar.connections == both_ways({pair(1, 2)})
            client.set(delete=[entry(1, 2)[0]], replace=[entry(3, 4)], encoding="json_ietf")
            assert own.crossbar.connections == {("2", "1"), ("3", "4")}
            seen = client.get(path=[TABLE], encoding="json_ietf")["notification"][0]["update"][0]["val"]
            assert set(seen) == {"2A-1B", "3A-4B"}
            states = client.get(path=["sonic-db:/STATE_DB/localhost/OCS_PORT_TABLE/3A"], encoding="json_ietf")
            assert states["notification"][0]["update"][0]["val"] == {"oper_status": "tuned"}
            with pytest.raises(gNMIException, match="there is a connection"):
                client.set(update=[entry(1, 4)], encoding="json_ietf")
    assert own.crossbar.connections == {("2", "1"), ("3", "4")}
