//! Whole jobs of servers in virtual time, one file for each subject.

mod absence;
mod exchanges;
mod failures;
mod forecasts;
mod hours;
mod joining;
mod large;
mod liveness;
mod members;
mod patience;
mod proofs;
mod quorum;
mod random;
mod rates;
mod recordings;
mod removal;
mod renewal;
mod seals;
mod shares;
mod sums;
mod tails;
mod throughput;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use wiresum_netem::{Conditions, OVERHEAD_BYTES, PS_PER_US, Rng, Time};
use wiresum_protocol::plan::Child;
use wiresum_protocol::rates::{Bounds, Negotiator};
use wiresum_protocol::{Aggregator, ControlHalf, Plan, Verdict};
use wiresum_testkit::cluster::*;
use wiresum_wire::{FragmentId, Header, MAX_VALUES, NodeId, PAGE_PACKET, Packet, Round};
use wiresum_worker::SwitchOver;
use wiresum_worker::{Failure, Kind, Session, Shape};

/// Runs until all who have left a node are back; how many there were.
fn run_until_all_are_home(cluster: &mut Cluster) -> usize {
    let has_left = |rank: &usize| !cluster.hosts[*rank].switches.is_empty();
    let away: Vec<_> = (0..cluster.hosts.len()).filter(has_left).collect();
    cluster.run_until_home(&away);
    away.len()
}

/// Keys of values on their way, by what they are told apart by.
type Keys<K> = Rc<RefCell<BTreeMap<K, BTreeSet<u64>>>>;

/// Takes down the keys of all values on their way. `name`: what a sender's packet belongs to.
fn watch_keys<K: Ord + 'static>(
    cluster: &mut Cluster,
    name: impl Fn(SocketAddr, &Header) -> K + 'static,
) -> Keys<K> {
    let keys = Keys::<K>::default();
    let seen = Rc::clone(&keys);
    cluster.on_the_way = Some(Box::new(move |from, datagram| {
        let packet = Packet::parse(datagram).expect("nothing is damaged");
        if packet.kind.carries_values() {
            let name = name(from, packet.header);
            seen.borrow_mut().entry(name).or_default().insert(packet.header.job_key.get());
        }
    }));
    keys
}
