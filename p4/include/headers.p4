// SPDX-License-Identifier: Apache-2.0
/* What is parsed: Ethernet, IPv4 without options, UDP, the two headers of Wiresum, lanes. */
#ifndef WIRESUM_HEADERS_P4
#define WIRESUM_HEADERS_P4

#include "repetition.p4"
#include "wiresum_wire.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
/* Version 4 and five words: a header without options. */
const bit<8> IPV4_WITHOUT_OPTIONS = 0x45;
/* The two headers of Wiresum, those of UDP and of IPv4: what lengths count besides the lanes. */
const bit<16> UDP_OVERHEAD = WIRESUM_HEADER_LEN + WIRESUM_SWITCH_HEADER_LEN + WIRESUM_UDP_LEN;
const bit<16> IPV4_OVERHEAD = UDP_OVERHEAD + WIRESUM_IPV4_LEN;
/* What the packets of a stream have in common: the width of their lanes, and whether the larger ones are kept. */
const bit<16> MERGED_LANES = WIRESUM_FLAG_MAXIMUM | WIRESUM_FLAG_LANES16;

header ethernet_h {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header ipv4_h {
    bit<8> version_and_length;
    bit<8> traffic_class;
    bit<16> total_length;
    bit<16> identification;
    bit<16> fragmentation;
    bit<8> time_to_live;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_h {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

/* One lane of 32 bits, or two of 16, the first one in the upper half. */
#define LANE_FIELD(i) bit<32> v##i;
header lanes_h {
    FOR_EACH_LANE(LANE_FIELD)
}

struct headers_t {
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    wiresum_header_h wiresum;
    wiresum_switch_header_h switched;
    lanes_h lanes;
}

/* The parser is the same in every architecture; lanes are valid only if they are as long as those that the program sums. */
parser Datagram(packet_in packet, out headers_t hdr) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_and_length, hdr.ipv4.protocol, hdr.ipv4.fragmentation & 0x3fff) {
            (IPV4_WITHOUT_OPTIONS, PROTOCOL_UDP, 0): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.source, hdr.udp.destination) {
            (_, WIRESUM_DEFAULT_PORT): parse_wiresum;
            (WIRESUM_DEFAULT_PORT, _): parse_wiresum;
            default: accept;
        }
    }

    /* What ends within a header leaves it invalid, and is dropped as malformed. */
    state parse_wiresum {
        packet.extract(hdr.wiresum);
        packet.extract(hdr.switched);
        transition select(hdr.wiresum.value_count, hdr.udp.length) {
            (LANES, UDP_OVERHEAD + 4 * LANES): parse_lanes;
            (2 * LANES, UDP_OVERHEAD + 4 * LANES): parse_lanes;
            default: accept;
        }
    }

    state parse_lanes {
        packet.extract(hdr.lanes);
        transition accept;
    }
}

control Emission(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.wiresum);
        packet.emit(hdr.switched);
        packet.emit(hdr.lanes);
    }
}

#endif
