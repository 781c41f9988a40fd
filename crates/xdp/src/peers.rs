//! The headers that go before a packet to a peer, made once so that the program only copies them.

use std::net::SocketAddr;

use wiresum_wire::JobKey;
use zerocopy::FromZeros;

use crate::layout::{Endpoint, Hearing, Peer, V4_FRAME_LEN, V6_FRAME_LEN};

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_UDP: u8 = 17;
/// Hops that a packet may take: the usual choice.
const HOP_LIMIT: u8 = 64;
/// Version 4, five words of header.
const IPV4_START: u8 = 0x45;
/// Flag "don't fragment", which is also what makes an identification of 0 right (RFC 6864).
const DONT_FRAGMENT: u8 = 0x40;
const IPV6_START: u8 = 0x60;

/// The peer at `address` in an incarnation, reached the way it was heard.
pub fn peer(address: SocketAddr, key: JobKey, hearing: &Hearing) -> Peer {
    let mut peer = Peer::new_zeroed();
    peer.source = Endpoint::from(address);
    peer.ifindex = hearing.ifindex;
    peer.job_key = key.0;
    let is_ipv4 = address.ip().to_canonical().is_ipv4();
    write_ethernet(&mut peer.frame, hearing, if is_ipv4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 });
    let ports = [hearing.local.port, peer.source.port].concat();
    if is_ipv4 {
        write_ipv4(&mut peer.frame[14..34], &hearing.local, &peer.source);
        peer.frame[34..38].copy_from_slice(&ports);
        peer.frame_len = V4_FRAME_LEN as u16;
        peer.address_sum = ones_complement(&peer.frame[14..34]);
    } else {
        write_ipv6(&mut peer.frame[14..54], &hearing.local, &peer.source);
        peer.frame[54..58].copy_from_slice(&ports);
        peer.frame_len = V6_FRAME_LEN as u16;
        let pseudo_header = [&peer.frame[22..58], &[0, PROTOCOL_UDP]].concat();
        peer.address_sum = ones_complement(&pseudo_header);
    }
    peer
}

fn write_ethernet(frame: &mut [u8], hearing: &Hearing, ethertype: [u8; 2]) {
    frame[..6].copy_from_slice(&hearing.peer_mac);
    frame[6..12].copy_from_slice(&hearing.local_mac);
    frame[12..14].copy_from_slice(&ethertype);
}

fn write_ipv4(header: &mut [u8], local: &Endpoint, remote: &Endpoint) {
    header[0] = IPV4_START;
    header[6] = DONT_FRAGMENT;
    header[8] = HOP_LIMIT;
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&local.address[12..]);
    header[16..20].copy_from_slice(&remote.address[12..]);
}

fn write_ipv6(header: &mut [u8], local: &Endpoint, remote: &Endpoint) {
    header[0] = IPV6_START;
    header[6] = PROTOCOL_UDP;
    header[7] = HOP_LIMIT;
    header[8..24].copy_from_slice(&local.address);
    header[24..40].copy_from_slice(&remote.address);
}

/// Ones' complement sum of 16-bit words in memory order, as the program adds to it.
fn ones_complement(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|b| u32::from(u16::from_ne_bytes([b[0], b[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
