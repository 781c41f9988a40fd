//! How much fits into a frame.

use crate::limits::{
    BLOCK_LEN, ETHERNET_CABLE_LEN, ETHERNET_LEN, HEADER_LEN, IPV4_LEN, IPV6_LEN, MAX_VALUES,
    MIN_VALUES, UDP_LEN,
};

/// Version of the Internet Protocol below the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4 without options.
    V4,
    /// IPv6 without extension headers.
    V6,
}

impl IpVersion {
    /// Bytes of its header.
    #[must_use]
    pub fn header_len(self) -> usize {
        match self {
            Self::V4 => IPV4_LEN,
            Self::V6 => IPV6_LEN,
        }
    }
}

/// Int32 lanes of the fullest packet that an MTU (bytes, IP header included) carries unfragmented: a whole number of
/// blocks, at most [`MAX_VALUES`]. `None` if not even [`MIN_VALUES`] fit.
#[must_use]
pub fn values_for_mtu(mtu: usize, version: IpVersion) -> Option<usize> {
    let room = mtu.checked_sub(version.header_len() + UDP_LEN + HEADER_LEN)?;
    let values = (room / BLOCK_LEN * BLOCK_LEN / 4).min(MAX_VALUES);
    (values >= MIN_VALUES).then_some(values)
}

/// Bytes that a packet with this payload takes on an Ethernet cable, from preamble to gap.
#[must_use]
pub fn cable_len(payload_len: usize, version: IpVersion) -> usize {
    let datagram = HEADER_LEN + payload_len;
    ETHERNET_LEN + version.header_len() + UDP_LEN + datagram + ETHERNET_CABLE_LEN
}
