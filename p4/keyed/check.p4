// SPDX-License-Identifier: Apache-2.0
/* The form of a packet with pairs, its check, and the acknowledgement that it becomes. */
#ifndef WIRESUM_KEYED_CHECK_P4
#define WIRESUM_KEYED_CHECK_P4

#include "../include/check.p4"
#include "headers.p4"

/* Everything in the check but what follows the first header. */
control FirstHeaderSum(in wiresum_header_h header, out bit<32> sum) {
    HeaderSum() header_sum;
    wiresum_switch_header_h none;
    apply {
        none.setValid();
        none.contributors = 0;
        none.slot = 0;
        header_sum.apply(header, none, sum);
    }
}

/* Whether a packet has the form that spec/wire.md wants. */
control KeyedForm(in keyed_headers_t hdr, out bool is_good) {
    bit<16> payload;
    bool is_end;
    bool is_push;
    apply {
        payload = hdr.wiresum.value_count << 2;
        is_end = hdr.wiresum.kind == WIRESUM_ROW_KIND_END && hdr.rows.rows == 0 && hdr.rows.dim == 0 && payload == 0;
        is_push = hdr.keys[0].isValid() && payload == (hdr.rows.rows << 3) + (hdr.rows.rows << 2);
        is_good = hdr.rows.isValid() && (is_end || is_push);
        is_good = is_good && hdr.wiresum.magic == WIRESUM_MAGIC && hdr.wiresum.version == WIRESUM_VERSION;
        is_good = is_good && hdr.udp.length == WIRESUM_UDP_LEN + ROW_HEADERS_LEN + payload;
        is_good = is_good && hdr.ipv4.total_length == WIRESUM_IPV4_LEN + hdr.udp.length;
    }
}

/* Whether the check is that of what has come. */
#define ADD_PAIR(i) \
    if (hdr.keys[i].isValid()) { \
        sum = sum + SWAPPED(hdr.keys[i].high); \
        sum = sum + SWAPPED(hdr.keys[i].low); \
        sum = sum + SWAPPED(hdr.values[i].value); \
    }
control KeyedCheck(in keyed_headers_t hdr, out bool is_sound) {
    FirstHeaderSum() first;
    bit<32> sum;
    bit<32> rows_and_dim;
    apply {
        first.apply(hdr.wiresum, sum);
        rows_and_dim = hdr.rows.rows ++ hdr.rows.dim;
        sum = sum + SWAPPED(hdr.rows.stamp);
        sum = sum + SWAPPED(hdr.rows.count);
        sum = sum + SWAPPED(hdr.rows.base);
        sum = sum + SWAPPED(rows_and_dim);
        FOR_EACH_PAIR(ADD_PAIR)
        is_sound = sum == hdr.wiresum.check;
    }
}

/* Back to its sender. */
#define CUT_PAIR(i) \
    hdr.keys[i].setInvalid(); \
    hdr.values[i].setInvalid();
control Acknowledge(inout keyed_headers_t hdr) {
    FirstHeaderSum() first;
    bit<32> sum;
    bit<48> mac;
    bit<32> address;
    bit<16> port;
    apply {
        mac = hdr.ethernet.source;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        address = hdr.ipv4.source;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = address;
        port = hdr.udp.source;
        hdr.udp.source = hdr.udp.destination;
        hdr.udp.destination = port;
        hdr.udp.length = WIRESUM_UDP_LEN + ROW_HEADERS_LEN;
        hdr.udp.checksum = 0;
        hdr.ipv4.total_length = WIRESUM_IPV4_LEN + WIRESUM_UDP_LEN + ROW_HEADERS_LEN;
        FOR_EACH_PAIR(CUT_PAIR)
        hdr.wiresum.kind = WIRESUM_ROW_KIND_ACKNOWLEDGEMENT;
        hdr.wiresum.value_count = 0;
        hdr.wiresum.flags = hdr.wiresum.flags & (WIRESUM_FLAG_LITTLE_ENDIAN | WIRESUM_FLAG_FLOAT);
        hdr.rows.count = 0;
        hdr.rows.base = 0;
        hdr.rows.rows = 0;
        hdr.rows.dim = 0;
        first.apply(hdr.wiresum, sum);
        hdr.wiresum.check = sum + SWAPPED(hdr.rows.stamp);
    }
}

#endif
