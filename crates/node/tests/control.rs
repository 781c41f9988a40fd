//! What acts by the clock at a node, driven by a real server.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

mod cluster;

use cluster::{PATIENCE, Shape, plan};
use wiresum_node::node::Node;
use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_protocol::{ControlHalf, Time, Transmit};
use wiresum_wire::{JobId, NodeId, Packet};

/// Sends its number to `to` once every millisecond, without having been asked.
struct Ticker {
    to: SocketAddr,
    due: Time,
    ticks: u8,
    is_owed: bool,
}

impl ControlHalf for Ticker {
    fn handle_membership(&mut self, _job: JobId, _membership: &Membership, _now: Time) {}

    fn handle_packet(&mut self, _source: SocketAddr, _packet: &Packet, _now: Time) {}

    fn handle_timeout(&mut self, now: Time) {
        self.ticks += 1;
        self.due = now.plus(Duration::from_millis(1));
        self.is_owed = true;
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.due)
    }

    fn poll_transmit(&mut self, _now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        buffer[0] = self.ticks;
        std::mem::take(&mut self.is_owed).then_some(Transmit { destination: self.to, len: 1 })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("ticks", self.ticks.into())]
    }
}

#[test]
fn a_node_acts_by_the_clock_without_being_asked() {
    let listener = UdpSocket::bind("127.0.0.1:0").expect("a port");
    listener.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let to = listener.local_addr().expect("bound");
    let plan = plan(Shape::Star, 1, Lanes::Int32Le, Policy::Pool);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = Node::bind(any, &[plan], NodeId(0)).expect("a port");
    server.add_control(Box::new(Ticker { to, due: Time(0), ticks: 0, is_owed: false }));
    let (stop, stopped) = UnixStream::pair().expect("descriptors");
    let thread = std::thread::spawn(move || {
        server.run(stopped, None, |_| {}).expect("a socket");
        server.counters()
    });
    let mut tick = [0];
    for expected in 1..=3 {
        listener.recv(&mut tick).expect("a tick");
        assert_eq!(tick, [expected]);
    }
    drop(stop);
    let counted = thread.join().expect("an end").control;
    assert!(matches!(counted[..], [("ticks", 3..)]), "{counted:?}");
}
