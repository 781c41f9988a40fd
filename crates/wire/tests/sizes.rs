//! Sizes of packets by MTU; the figures stand in `spec/wire.md` too.

use wiresum_wire::{IpVersion, cable_len, values_for_mtu};

#[test]
fn packets_fill_the_mtu_in_whole_blocks() {
    let cases = [
        (576, Some(120), Some(120)),
        (1280, Some(296), Some(296)),
        (1500, Some(352), Some(352)),
        (3010, Some(736), Some(728)),
        (3030, Some(736), Some(736)),
        (9000, Some(2232), Some(2224)),
    ];
    for (mtu, v4, v6) in cases {
        assert_eq!(values_for_mtu(mtu, IpVersion::V4), v4, "MTU {mtu}, IPv4");
        assert_eq!(values_for_mtu(mtu, IpVersion::V6), v6, "MTU {mtu}, IPv6");
    }
}

#[test]
fn too_small_an_mtu_has_no_packet() {
    assert_eq!(values_for_mtu(66 + 256, IpVersion::V4), Some(64));
    assert_eq!(values_for_mtu(66 + 255, IpVersion::V4), None);
    assert_eq!(values_for_mtu(0, IpVersion::V6), None);
}

#[test]
fn cable_lengths_count_preamble_to_gap() {
    assert_eq!(cable_len(1408, IpVersion::V4), 1512);
    assert_eq!(cable_len(2944, IpVersion::V6), 3068);
}
