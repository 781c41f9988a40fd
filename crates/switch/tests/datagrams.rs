//! Packets there and back through datagrams.

use wiresum_protocol::rng::Rng;
use wiresum_switch::policy::Policy;
use wiresum_switch::wire;
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{Flags, HEADER_LEN, Header, JobKey, SwitchHeader, seal_switched};
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn what_was_emitted_is_parsed_again_in_every_format() {
    let lanes = [Flags::LANES16, Flags::MAXIMUM];
    let mut traffic = RandomTraffic::of_lanes(lanes, Policy::Preempt, false, 3);
    for _ in 0..1000 {
        let mut packet = traffic.next_packet();
        packet.mark(Flags::SWITCHED);
        let parsed = wire::parse(&wire::emit(&packet, JobKey(77))).expect("well-formed");
        assert_eq!(parsed, (JobKey(77), packet));
    }
}

/// Random bytes, one by one, in otherwise good datagrams, sealed anew: whatever a stranger sends, the switch goes on.
#[test]
fn no_datagram_harms_a_switch() {
    for policy in Policy::ALL {
        let is_root = !policy.needs_server();
        let lanes = [Flags::LANES16, Flags(0)];
        let mut traffic = RandomTraffic::of_lanes(lanes, policy, is_root, 5);
        let (mut switch, mut rng) = (traffic.switch(), Rng::new(6));
        let mut handled = 0;
        for _ in 0..20_000 {
            let mut datagram = wire::emit(&traffic.next_packet(), JobKey(1));
            for _ in 0..rng.below(4) {
                let index = 2 + rng.below(datagram.len() as u64 - 2) as usize;
                datagram[index] = rng.next() as u8;
            }
            seal(&mut datagram);
            if let Ok((_, mut packet)) = wire::parse(&datagram) {
                handled += 1;
                switch.handle(&mut packet);
            }
        }
        assert_eq!(switch.counters().total(), handled);
        assert!(handled > 10_000, "{handled}");
    }
}

fn seal(datagram: &mut [u8]) {
    let (mut header, rest) = Header::read_from_prefix(datagram).expect("whole");
    let (switch, payload) = SwitchHeader::read_from_prefix(rest).expect("whole");
    seal_switched(&mut header, &switch, payload);
    datagram[..HEADER_LEN].copy_from_slice(header.as_bytes());
}
