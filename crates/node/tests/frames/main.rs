//! Workers that go past the network stack: AF_XDP over veth pairs between namespaces, an aggregator with ordinary sockets.
//!
//! Sums are exact, or the culprit is named, whatever happens to the way; other traffic passes; nothing stays behind.

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../../../xdp/tests/support/namespaces.rs"]
mod namespaces;
mod star;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use star::{Faults, Star, WORKERS};
use wiresum_codec::Operation;
use wiresum_node::engine::transport::Preference;
use wiresum_testkit::seeds::seed_or;
use wiresum_worker::Failure;

/// For collectives that are meant to fail.
const SHORT: Duration = Duration::from_millis(1500);
/// Values of a sum that takes some hundred packets.
const LEN: usize = 100_000;

#[test]
fn sums_are_exact_and_go_past_the_stack_and_nothing_stays() {
    let Some(star) = Star::new("sums") else { return };
    let cluster = star.start(Preference::AfXdp, None);
    for round in 0..3 {
        star::assert_sums(&cluster, LEN + round);
    }
    for (rank, engine) in cluster.engines.iter().enumerate() {
        assert!(engine.transport().starts_with("AF_XDP frames of e0"), "{}", engine.transport());
        assert!(star.has_program(rank), "rank {rank}: nothing steers");
        let counts = star::counts(engine);
        let packets = 3 * LEN as u64 / 256;
        // The first packets of a worker find the way.
        assert!(counts["frames_received"] >= packets, "{counts:?}");
        assert!(counts["frames_sent"] >= packets / 2, "{counts:?}");
    }
    cluster.stop();
    assert!((0..WORKERS).all(|rank| !star.has_program(rank)), "a program outlives its worker");
}

#[test]
fn who_asks_for_udp_gets_it() {
    let Some(star) = Star::new("udp") else { return };
    let cluster = star.start(Preference::Udp, None);
    star::assert_sums(&cluster, LEN);
    assert_eq!(cluster.engines[0].transport(), "UDP: it was asked for");
    assert_eq!(star::counts(&cluster.engines[0])["frames_sent"], 0);
    assert!(!star.has_program(0));
}

#[test]
fn a_second_rank_on_an_interface_goes_by_udp_and_says_why() {
    let Some(star) = Star::new("two") else { return };
    let cluster = star.start_on(Preference::AfXdp, None, [0, 0]);
    star::assert_sums(&cluster, LEN);
    let mut said: Vec<_> = cluster.engines.iter().map(|engine| engine.transport()).collect();
    said.sort_unstable();
    assert!(said[0].starts_with("AF_XDP frames of e0"), "{said:?}");
    assert!(said[1].starts_with("UDP: ") && said[1].contains("another XDP program"), "{said:?}");
}

#[test]
fn loss_duplication_and_reordering_change_no_sum() {
    let Some(star) = Star::new("faults") else { return };
    let seed = seed_or(5);
    let cluster = star.start(Preference::AfXdp, Some(Faults { seed, one_in: 30 }));
    for round in 0..3 {
        star::assert_sums(&cluster, LEN / 4 + round);
    }
    assert!(star::counts(&cluster.engines[0])["frames_received"] > 0);
}

#[test]
fn other_traffic_of_the_interface_passes() {
    let Some(star) = Star::new("others") else { return };
    let cluster = star.start(Preference::AfXdp, None);
    let (here, there) = star.other_sockets(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..10).for_each(|_| star::assert_sums(&cluster, LEN));
            is_over.store(true, Ordering::Relaxed);
        });
        let mut echoed = 0;
        while !is_over.load(Ordering::Relaxed) || echoed == 0 {
            echo(&here, &there);
            echoed += 1;
        }
    });
}

/// A datagram there and back.
fn echo(here: &UdpSocket, there: &UdpSocket) {
    let mut buffer = [0; 2000];
    here.send_to(&[7; 1400], there.local_addr().expect("bound")).expect("sent");
    let (len, from) = there.recv_from(&mut buffer).expect("other datagrams arrive");
    there.send_to(&buffer[..len], from).expect("sent");
    assert_eq!(here.recv(&mut buffer).expect("and are answered"), 1400);
}

#[test]
fn an_aggregator_that_dies_is_named() {
    let Some(star) = Star::new("dies") else { return };
    let mut cluster = star.start(Preference::AfXdp, None);
    star::assert_sums(&cluster, LEN);
    cluster.nodes.pop().expect("a node").kill();
    for (_, outcome) in cluster.all_reduce(Operation::Sum, SHORT, |_| vec![1f32; LEN]) {
        let failure = star::failure(outcome);
        assert!(matches!(failure, Failure::Silent { node, .. } if node.0 == 0), "{failure}");
    }
}

#[test]
fn a_link_that_goes_down_and_up_delays_a_sum_and_no_more() {
    let Some(star) = Star::new("updown") else { return };
    let cluster = star.start(Preference::AfXdp, None);
    thread::scope(|scope| {
        let sums = scope.spawn(|| (0..20).for_each(|_| star::assert_sums(&cluster, LEN)));
        for _ in 0..2 {
            star.flap(0);
        }
        sums.join().expect("sums");
    });
    star::assert_sums(&cluster, LEN);
}

#[test]
fn a_neighbour_may_change_its_address() {
    let Some(star) = Star::new("mac") else { return };
    let cluster = star.start(Preference::AfXdp, None);
    star::assert_sums(&cluster, LEN);
    thread::scope(|scope| {
        let sums = scope.spawn(|| (0..10).for_each(|_| star::assert_sums(&cluster, LEN)));
        star.change_mac(0);
        sums.join().expect("sums");
    });
    // The new way is learnt: frames leave again.
    let sent = || star::counts(&cluster.engines[0])["frames_sent"];
    let before = sent();
    star::assert_sums(&cluster, LEN);
    assert!(sent() > before, "frames go to the old address, or nowhere");
}

#[test]
fn an_interface_that_is_deleted_ends_in_an_error() {
    let Some(star) = Star::new("gone") else { return };
    let cluster = star.start(Preference::AfXdp, None);
    star::assert_sums(&cluster, LEN);
    star.delete_interface(0);
    let outcomes = cluster.all_reduce(Operation::Sum, SHORT, |_| vec![1f32; LEN]);
    for (_, outcome) in outcomes {
        assert!(outcome.is_err(), "nobody can have summed that");
    }
    // It ends, with its statistics, though its socket has nothing below it.
    assert!(star::counts(&cluster.engines[0])["frames_received"] > 0);
}
