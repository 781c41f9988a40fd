// SPDX-License-Identifier: Apache-2.0
/* Packets with pairs of keys and values (spec/keyed.md): the second header of rows, a column of keys, a column of values. */
#ifndef WIRESUM_KEYED_HEADERS_P4
#define WIRESUM_KEYED_HEADERS_P4

#include "../include/headers.p4"

/* Most pairs of a packet. Those with more are not read, and dropped as malformed. */
#define PAIRS 8
#define FOR_EACH_PAIR(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
/* Every pair, and how many there are with it. */
#define FOR_EACH_PAIR_AND_NEXT(DO) \
    DO(0, 1) DO(1, 2) DO(2, 3) DO(3, 4) DO(4, 5) DO(5, 6) DO(6, 7) DO(7, 8)
#define FOR_EACH_PAIR_OF(DO, r) \
    DO(0, r) DO(1, r) DO(2, r) DO(3, r) DO(4, r) DO(5, r) DO(6, r) DO(7, r)

/* Register arrays for sums: 24 of them, with what is before and behind, are nine stages. */
#ifndef REGISTERS
#define REGISTERS 24
#endif
#define REGISTERS_0_TO_3(DO) \
    DO(0) DO(1) DO(2) DO(3)
#define REGISTERS_4_TO_23(DO) \
    DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) \
    DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#if REGISTERS == 4
#define FOR_EACH_REGISTER(DO) REGISTERS_0_TO_3(DO)
#elif REGISTERS == 24
#define FOR_EACH_REGISTER(DO) REGISTERS_0_TO_3(DO) REGISTERS_4_TO_23(DO)
#else
#error "REGISTERS is 4 or 24: add a list for another number"
#endif

const bit<16> ROW_HEADERS_LEN = WIRESUM_HEADER_LEN + WIRESUM_ROW_HEADER_LEN;

/* Values are little-endian. */
#define SWAPPED(x) ((x)[7:0] ++ (x)[15:8] ++ (x)[23:16] ++ (x)[31:24])

header key_h {
    bit<32> high;
    bit<32> low;
}

header value_h {
    bit<32> value;
}

struct keyed_headers_t {
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    wiresum_header_h wiresum;
    wiresum_row_header_h rows;
    key_h[PAIRS] keys;
    value_h[PAIRS] values;
}

/* A column after the other, as long as the packet has pairs. */
#define KEY_STATE(i, next) \
    state keys_##i { \
        packet.extract(hdr.keys[i]); \
        transition select(hdr.rows.rows) { \
            next: values_0; \
            default: keys_##next; \
        } \
    }
#define VALUE_STATE(i, next) \
    state values_##i { \
        packet.extract(hdr.values[i]); \
        transition select(hdr.rows.rows) { \
            next: accept; \
            default: values_##next; \
        } \
    }
parser KeyedDatagram(packet_in packet, out keyed_headers_t hdr) {
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
        transition select(hdr.udp.destination) {
            WIRESUM_DEFAULT_PORT: parse_wiresum;
            default: accept;
        }
    }

    state parse_wiresum {
        packet.extract(hdr.wiresum);
        packet.extract(hdr.rows);
        transition select(hdr.wiresum.kind, hdr.rows.rows, hdr.rows.dim) {
            (WIRESUM_ROW_KIND_PUSH, 16w1 .. PAIRS, 1): keys_0;
            default: accept;
        }
    }

    FOR_EACH_PAIR_AND_NEXT(KEY_STATE)
    FOR_EACH_PAIR_AND_NEXT(VALUE_STATE)

    /* No packet has so many: `parse_wiresum` has seen to that. */
    state keys_8 {
        transition reject;
    }
    state values_8 {
        transition reject;
    }
}

control KeyedEmission(packet_out packet, in keyed_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.wiresum);
        packet.emit(hdr.rows);
        packet.emit(hdr.keys);
        packet.emit(hdr.values);
    }
}

#endif
