//! Packets there and back through datagrams.

use wiresum_protocol::rng::Rng;
use wiresum_switch::policy::PolicyName;
use wiresum_switch::wire;
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{Flags, HEADER_LEN, Header, JobKey, ParseError, SwitchHeader, seal_switched};
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn what_was_emitted_is_parsed_again_in_either_byte_order() {
    let mut traffic = RandomTraffic::new(PolicyName::Preempt, false, 3);
    for order in [Flags::LITTLE_ENDIAN, Flags(0)].into_iter().cycle().take(1000) {
        let mut packet = traffic.next_packet();
        packet.flags = Flags(packet.flags.0 & !Flags::FORMAT.0).with(order).with(Flags::SWITCHED);
        let parsed = wire::parse(&wire::emit(&packet, JobKey(77))).expect("well-formed");
        assert_eq!(parsed, (JobKey(77), packet));
    }
}

#[test]
fn lanes_of_sixteen_bits_are_not_summed_here() {
    let mut packet = RandomTraffic::new(PolicyName::Pool, false, 3).next_packet();
    packet.mark(Flags::LANES16);
    packet.values.truncate(0);
    packet.values.resize(16, 0);
    let mut datagram = wire::emit(&packet, JobKey(0));
    datagram.truncate(datagram.len() - 32);
    // Sixteen lanes of two bytes; all are zero, so the check still matches.
    assert_eq!(wire::parse(&datagram), Err(ParseError::PayloadLength(32)));
}

/// Random bytes, one by one, in otherwise good datagrams, sealed anew: whatever a stranger sends, the switch goes on.
#[test]
fn no_datagram_harms_a_switch() {
    for policy in PolicyName::ALL {
        let mut traffic = RandomTraffic::new(policy, !policy.needs_server(), 5);
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
