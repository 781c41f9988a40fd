"""Answers of devices whose encoders of YANG data differ from the emulated ones': read, or refused by what came."""

import http.server
import json
import threading
from contextlib import contextmanager

import pytest
from tests.circuits.switches import device, served

from wiresum.circuits.drivers import connect
from wiresum.circuits.gnmi import content, new, path, typed
from wiresum.errors import CircuitError

SIZE = 4
PAIR = {"ingress": 1, "egress": 6}
CONNECTED = {("1", "2")}
COLLECTION = {"optical-switch:cross-connects": {"pair": [PAIR]}}
PORTS = {"optical-switch:ports": {"port": [{"port-id": number} for number in range(1, 2 * SIZE + 1)]}}


def errors(tag, **more):
    return {"ietf-restconf:errors": {"error": [{"error-type": "application", "error-tag": tag, **more}]}}


class Switch(http.server.BaseHTTPRequestHandler):
    """A RESTCONF device that answers GETs as a test says, and takes every PUT whose condition can match."""

    def do_GET(self):
        status, body = self.server.answers.get(self.path.rpartition(":")[2], (404, errors("operation-failed")))
        self.answer(status, body)

    def do_PUT(self):
        condition = self.headers["If-Match"]
        self.server.put = (condition, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        is_met = condition is None or (condition == self.server.etag and not condition.startswith("W/"))
        self.answer(204 if is_met else 412, None)

    def answer(self, status, body):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@contextmanager
def restconf(status=200, collection=COLLECTION, etag='"1"', **answers):
    """A driver, and the server with what was put."""
    with http.server.HTTPServer(("127.0.0.1", 0), Switch) as server:
        server.answers = {"ports": (200, PORTS), "cross-connects": (status, collection), **answers}
        server.etag, server.put = etag, None
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield connect(f"polatis-rest://127.0.0.1:{server.server_port}"), server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("etag", "condition"), [('"1"', '"1"'), ('W/"1"', None), ('W/""', None), ('""', '""'), ("", None)]
)
def test_sends_a_condition_for_a_strong_etag_only(etag, condition):
    with restconf(etag=etag) as (driver, server):
        driver.change([], [("3", "4")])
    assert server.put == (condition, {"optical-switch:cross-connects": {"pair": [PAIR, {"ingress": 3, "egress": 8}]}})


@pytest.mark.parametrize(
    ("status", "collection"),
    [
        (404, errors("data-missing")),
        (404, errors("invalid-value")),
        (409, errors("data-missing")),
        (404, {"errors": {"error": {"error-tag": "data-missing"}}}),
        (204, None),
        (200, {}),
        (200, []),
        (200, {"optical-switch:cross-connects": None}),
        (200, {"optical-switch:cross-connects": {}}),
        (200, {"cross-connects": {"pair": [None]}}),
        (200, {"cross-connects": {"optical-switch:pair": []}}),
    ],
)
def test_reads_an_empty_collection_in_every_form(status, collection):
    with restconf(status, collection) as (driver, server):
        assert not driver.read().connections
        driver.change([], [("1", "2")])
    assert server.put[1] == COLLECTION
    assert server.put[0] == ('"1"' if status < 300 else None), "the tag of an error is not that of the collection"


@pytest.mark.parametrize(
    "collection",
    [
        {"cross-connects": {"pair": [PAIR]}},
        {"optical-switch:cross-connects": {"optical-switch:pair": PAIR}},
        {"other:cross-connects": [{"pair": [{"optical-switch:ingress": "1", "optical-switch:egress": "6"}]}]},
    ],
)
def test_reads_names_without_a_module_and_lists_of_one(collection):
    power = {"opm-power": {"port": {"port-id": "6", "power": "-3.5"}}}
    with restconf(collection=collection, **{"opm-power": (200, power)}) as (driver, _):
        reading = driver.read()
    assert reading.connections == CONNECTED
    assert reading.states["1"].state.value == "lit"


@pytest.mark.parametrize(
    ("status", "collection", "said"),
    [
        (200, {"other": 1}, 'expected an object with the member cross-connects, and got {"other": 1}'),
        (200, {"cross-connects": {"pairs": [PAIR]}}, "expected an object with the member pair, and got"),
        (200, {"cross-connects": {"pair": "1-6"}}, 'a list of pairs with ingress and egress, and got "1-6"'),
        (200, {"cross-connects": {"pair": [{"ingress": 1}]}}, "expected an object with the member egress"),
        (200, {"cross-connects": {"pair": [{"ingress": 1.5, "egress": 6}]}}, "a number as ingress, and got 1.5"),
        (200, {"cross-connects": {"pair": [{"ingress": True, "egress": 6}]}}, "a number as ingress, and got true"),
        (200, {"cross-connects": {"pair": [{"ingress": 1, "egress": 3}]}}, "expected an egress from 5 to 8, and got 3"),
        (200, {"cross-connects": {"pair": [{"ingress": "9" * 5000, "egress": 5}]}}, "a number as ingress, and got"),
        (404, errors("unknown-element", **{"error-message": "no such module"}), "HTTP 404 no such module"),
        (404, None, "refuses GET cross-connects: HTTP 404"),
        (409, errors("lock-denied"), "refuses GET cross-connects: HTTP 409"),
    ],
)
def test_says_what_it_expected_and_what_came_and_orders_nothing(status, collection, said):
    with restconf(status, collection) as (driver, server):
        for ask in (driver.read, lambda: driver.change([], [("3", "4")])):
            with pytest.raises(CircuitError) as refused:
                ask()
            assert said in str(refused.value)
            assert "again" not in str(refused.value)
            assert len(str(refused.value)) < 300
    assert server.put is None


@pytest.mark.parametrize(
    "ports", [{}, {"ports": {"port": []}}, {"ports": {"port": [{}] * 3}}, {"ports": {"port": "x"}}]
)
def test_a_device_without_ports_is_not_ordered(ports):
    with (
        restconf(ports=(200, ports)) as (driver, server),
        pytest.raises(CircuitError, match=r"expected .*ports?, and got"),
    ):
        driver.change([], [("3", "4")])
    assert server.put is None


ROW = {"a_side": "1A", "b_side": "2B"}
TABLE = ("sonic-db", "CONFIG_DB", "localhost", "OCS_CROSS_CONNECT")
EMPTY = new("TypedValue")


def answers_with(make):
    """A driver whose device answers Gets of cross-connects with other messages."""

    def mangle(data):
        return make().SerializeToString() if TABLE[-1].encode() in data else data

    own = device(ports=SIZE)
    own.crossbar.order(0.0, [], CONNECTED)
    own.mangle = mangle
    return served("sonic-gnmi", own)


def get(*updates, prefix=None):
    made = [new("Update", path=path("", *names), val=value) for names, value in updates]
    return new("GetResponse", notification=[new("Notification", prefix=prefix, update=made)])


GNMI_FORMS = {
    "table": lambda: get(((*TABLE[1:],), typed({"1A-2B": ROW}))),
    "no path": lambda: get(((), typed({"1A-2B": ROW}))),
    "wrapped": lambda: get(((*TABLE[1:],), typed({"sonic-ocs:OCS_CROSS_CONNECT": {"1A-2B": ROW}}))),
    "names with a module": lambda: get((TABLE[1:], typed({"1A-2B": {f"ocs:{name}": ROW[name] for name in ROW}}))),
    "list of one": lambda: get((TABLE[1:], typed([{"1A-2B": [ROW]}]))),
    "rows": lambda: get((("1A-2B",), typed(ROW)), prefix=path(*TABLE)),
    "fields": lambda: get(*(((*TABLE[1:], "1A-2B", name), new("TypedValue", string_val=ROW[name])) for name in ROW)),
}
GNMI_EMPTY = {
    "no notification": lambda: new("GetResponse"),
    "no update": get,
    "no value": lambda: get((TABLE[1:], EMPTY)),
    "null": lambda: get((TABLE[1:], typed(None))),
    "object": lambda: get((TABLE[1:], typed({}))),
    "list": lambda: get((TABLE[1:], typed([]))),
}


@pytest.mark.parametrize("form", [*GNMI_FORMS, *GNMI_EMPTY])
def test_gnmi_reads_tables_rows_fields_and_nothing(form):
    with answers_with({**GNMI_FORMS, **GNMI_EMPTY}[form]) as driver:
        assert driver.read().connections == (CONNECTED if form in GNMI_FORMS else set())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", 'expected an object with what OCS_CROSS_CONNECT has, and got "text"'),
        ([{"1A-2B": ROW}, {"2A-1B": ROW}], "expected an object with what OCS_CROSS_CONNECT has"),
        ({"1A-2B": "up"}, 'expected an object with what 1A-2B has, and got "up"'),
        ({"1A-2B": {"a": "1A"}}, "row 1A-2B has a; expected a_side"),
        ({"1A-2B": {"a_side": "1A", "b_side": "2A"}}, "cross-connect 1A-2B is not from a side A to a side B"),
    ],
)
def test_gnmi_says_what_it_expected_and_what_came(value, said):
    with answers_with(lambda: get((TABLE[1:], typed(value)))) as driver, pytest.raises(CircuitError) as refused:
        driver.read()
    assert said in str(refused.value)
    assert "again" not in str(refused.value)


def test_a_value_without_content_is_none():
    assert content(EMPTY) is None
