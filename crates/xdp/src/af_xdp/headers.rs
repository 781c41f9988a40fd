//! From a frame to the datagram in it, and back. The steering program has looked at the same fields, but user space trusts no
//! length that it has not compared itself.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::layout::{Endpoint, Hearing, Peer, V4_FRAME_LEN, V6_FRAME_LEN};

const ETHERTYPE: Range<usize> = 12..14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UDP_HEADER_LEN: usize = 8;
/// Where an IPv4 header starts, where its total length is, and its checksum.
const IPV4_HEADER: Range<usize> = 14..34;
const IPV4_TOTAL_LEN: Range<usize> = 16..18;
const IPV4_CHECKSUM: Range<usize> = 24..26;
const IPV6_PAYLOAD_LEN: Range<usize> = 18..20;

/// The datagram of a frame: its source, how to answer, and where its bytes are.
pub fn parse(frame: &[u8], ifindex: u32) -> Option<(SocketAddr, Hearing, &[u8])> {
    let headers = match frame.get(ETHERTYPE)? {
        kind if kind == IPV4 => V4_FRAME_LEN,
        kind if kind == IPV6 => V6_FRAME_LEN,
        _ => return None,
    };
    let (head, rest) = frame.split_at_checked(headers)?;
    let udp_len = usize::from(u16::from_be_bytes([head[headers - 4], head[headers - 3]]));
    let datagram = rest.get(..udp_len.checked_sub(UDP_HEADER_LEN)?)?;
    let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (source, local) = if headers == V4_FRAME_LEN {
        (ip::<4>(&head[26..30]), ip::<4>(&head[30..34]))
    } else {
        (ip::<16>(&head[22..38]), ip::<16>(&head[38..54]))
    };
    let (source, local) =
        (SocketAddr::new(source, port(headers - 8)), SocketAddr::new(local, port(headers - 6)));
    let mut hearing = Hearing { local: Endpoint::from(local), ifindex, ..Hearing::default() };
    hearing.peer_mac.copy_from_slice(&head[6..12]);
    hearing.local_mac.copy_from_slice(&head[..6]);
    Some((source, hearing, datagram))
}

fn ip<const LEN: usize>(bytes: &[u8]) -> IpAddr
where
    IpAddr: From<[u8; LEN]>,
{
    IpAddr::from(<[u8; LEN]>::try_from(bytes).expect("as long as an address"))
}

/// Bytes that go before a datagram to a peer.
pub fn len(peer: &Peer) -> usize {
    usize::from(peer.frame_len)
}

/// Writes the headers of a frame that has the datagram in it already, checksums included; over IPv4 UDP's own is left out, as
/// it may be.
pub fn write(frame: &mut [u8], peer: &Peer) {
    let headers = len(peer);
    frame[..headers].copy_from_slice(&peer.frame[..headers]);
    let udp_len = (UDP_HEADER_LEN + frame.len() - headers) as u16;
    frame[headers - 4..headers - 2].copy_from_slice(&udp_len.to_be_bytes());
    if headers == V4_FRAME_LEN {
        let total_len = udp_len + IPV4_HEADER.len() as u16;
        frame[IPV4_TOTAL_LEN].copy_from_slice(&total_len.to_be_bytes());
        let checksum = !ones_complement(&frame[IPV4_HEADER], 0);
        frame[IPV4_CHECKSUM].copy_from_slice(&checksum.to_ne_bytes());
    } else {
        frame[IPV6_PAYLOAD_LEN].copy_from_slice(&udp_len.to_be_bytes());
        // The pseudo header has the length once more than the UDP header, so it is added here.
        let start = u32::from(peer.address_sum) + 2 * u32::from(udp_len.to_be());
        let checksum = match !ones_complement(&frame[headers..], start) {
            0 => u16::MAX,
            checksum => checksum,
        };
        frame[headers - 2..headers].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// Ones' complement sum of 16-bit words in memory order, added to `start`.
fn ones_complement(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|pair| [pair[0], *pair.get(1).unwrap_or(&0)]);
    // At most 2^16 bytes, so at most 2^15 words: no overflow.
    let sum = words.fold(start, |sum, word| sum + u32::from(u16::from_ne_bytes(word)));
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use wiresum_wire::JobKey;

    use super::*;
    use crate::frames::{LOCAL_MAC, PEER_MAC, udp_frame};
    use crate::peers;

    const FAMILIES: [(&str, &str); 2] =
        [("10.0.0.2:700", "10.0.0.1:5747"), ("[fd00::2]:700", "[fd00::1]:5747")];

    /// The frame from `child` to `node`, and the answer to it.
    fn exchange(child: &str, node: &str) -> (Vec<u8>, Vec<u8>) {
        let (child, node) = (child.parse().expect("an address"), node.parse().expect("an address"));
        let question = udp_frame(child, node, b"question");
        let (source, hearing, datagram) = parse(&question, 7).expect("a datagram");
        assert_eq!((source, datagram, hearing.ifindex), (child, &b"question"[..], 7));
        let peer = peers::peer(source, JobKey(0), &hearing);
        let mut answer = [&vec![0xaa; len(&peer)][..], b"an answer"].concat();
        write(&mut answer, &peer);
        (question, answer)
    }

    #[test]
    fn an_answer_goes_back_the_way_that_the_question_came() {
        for (child, node) in FAMILIES {
            let (_, answer) = exchange(child, node);
            assert_eq!((&answer[..6], &answer[6..12]), (&PEER_MAC[..], &LOCAL_MAC[..]));
            let (source, hearing, datagram) = parse(&answer, 7).expect("a datagram");
            assert_eq!((source.to_string(), datagram), (node.to_owned(), &b"an answer"[..]));
            assert_eq!(hearing.local, Endpoint::from(child.parse::<SocketAddr>().expect("one")));
        }
    }

    #[test]
    fn checksums_add_up_to_ones() {
        let [(_, v4), (_, v6)] = FAMILIES.map(|(child, node)| exchange(child, node));
        assert_eq!(ones_complement(&v4[IPV4_HEADER], 0), 0xffff);
        let udp_len = (v6.len() - 54) as u16;
        let pseudo = [&v6[22..54], &udp_len.to_be_bytes(), &[0, 17], &v6[54..]].concat();
        assert_eq!(ones_complement(&pseudo, 0), 0xffff);
    }

    #[test]
    fn no_frame_is_read_beyond_its_end() {
        for (child, node) in FAMILIES {
            let (question, _) = exchange(child, node);
            for len in 0..question.len() {
                assert!(parse(&question[..len], 7).is_none(), "{len} bytes are no datagram");
            }
        }
    }
}
