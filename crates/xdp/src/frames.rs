//! Whole Ethernet frames, for running the program without a network.

use std::net::SocketAddr;

use wiresum_wire::JobKey;

use crate::layout::{Endpoint, Hearing, V4_FRAME_LEN};
use crate::peers;

/// Ethernet address of whoever sends to the aggregator.
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Ethernet address of the aggregator.
pub const LOCAL_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Bytes of a UDP header.
const UDP_HEADER_LEN: usize = 8;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER_LEN: usize = 14;

/// The frame that carries a datagram to the aggregator. Its UDP checksum is absent, which the program does not mind; its
/// IPv4 checksum likewise.
///
/// # Panics
/// If the addresses are of different families, or the datagram is longer than UDP allows.
#[must_use]
pub fn udp_frame(source: SocketAddr, destination: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    assert_eq!(source.is_ipv4(), destination.is_ipv4(), "one frame has one family");
    let hearing = Hearing {
        local: Endpoint::from(source),
        ifindex: 0,
        peer_mac: LOCAL_MAC,
        local_mac: PEER_MAC,
    };
    let peer = peers::peer(destination, JobKey(0), &hearing);
    let headers = usize::from(peer.frame_len);
    let mut frame = [&peer.frame[..headers], datagram].concat();
    let udp_len = u16::try_from(UDP_HEADER_LEN + datagram.len()).expect("a UDP datagram");
    frame[headers - 4..headers - 2].copy_from_slice(&udp_len.to_be_bytes());
    if headers == V4_FRAME_LEN {
        let total_len = udp_len + (headers - ETHERNET_HEADER_LEN - UDP_HEADER_LEN) as u16;
        frame[16..18].copy_from_slice(&total_len.to_be_bytes());
    } else {
        frame[18..20].copy_from_slice(&udp_len.to_be_bytes());
    }
    frame
}
