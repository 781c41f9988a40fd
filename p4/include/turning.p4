// SPDX-License-Identifier: Apache-2.0
/* What policies do to a packet that leaves in another shape than it came. */
#ifndef WIRESUM_TURNING_P4
#define WIRESUM_TURNING_P4

#include "headers.p4"
#include "work.p4"
#include "workers.p4"

/* Flags that stay when a packet becomes a result: the lanes' format, congestion. */
const bit<16> RESULT_FLAGS = WIRESUM_FLAG_FORMAT | WIRESUM_FLAG_ECN | WIRESUM_FLAG_SWITCHED;

/* Up, unsummed, because its slot is taken. */
action collide(inout wiresum_header_h wiresum, inout work_t w) {
    wiresum.flags = wiresum.flags | WIRESUM_FLAG_COLLISION;
    w.verdict = VERDICT_COLLISION;
    w.egress = EGRESS_UP;
}

/* The result, to whoever is in it. */
action turn_down(inout headers_t hdr, inout work_t w, in contributors_t recipients, in bit<8> summed) {
    hdr.wiresum.kind = WIRESUM_KIND_RESULT;
    hdr.wiresum.expected = summed;
    hdr.wiresum.flags = hdr.wiresum.flags & RESULT_FLAGS;
    hdr.switched.contributors = recipients;
    w.egress = EGRESS_DOWN;
}

/* Back to its sender without values, marked: the asynchronous error of P4INC-AOI. */
action refuse(inout headers_t hdr, inout work_t w, in contributors_t sender) {
    turn_down(hdr, w, sender, 0);
    hdr.wiresum.flags = hdr.wiresum.flags | WIRESUM_FLAG_ECN | WIRESUM_FLAG_REFUSED;
    hdr.wiresum.value_count = 0;
    hdr.ipv4.total_length = IPV4_OVERHEAD;
    hdr.udp.length = UDP_OVERHEAD;
    hdr.lanes.setInvalid();
    w.lane_sum = 0;
    w.verdict = VERDICT_REFUSED;
}

/* Whether the packet's slot is one that the stream may use, where the sender chooses it. */
control ChosenSlot(in wiresum_switch_header_h switched, inout work_t w) {
    bit<32> offset;
    apply {
        w.slot = switched.slot;
        offset = switched.slot - w.place.base;
        w.has_slot = 0;
        if (switched.slot >= w.place.base && offset < w.place.slots) {
            w.has_slot = 1;
        }
    }
}

#endif
