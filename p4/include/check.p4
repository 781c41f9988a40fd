// SPDX-License-Identifier: Apache-2.0
/* The form of a packet, and its check (spec/wire.md).
 *
 * The check is linear: that of the headers' words, the flags, and the lane sum. The lane sum that the sender claims is therefore
 * summed in the slots as one lane more, and what leaves is sealed with it: no lane is added up twice, and a receiver's test
 * covers what happened in the switch. */
#ifndef WIRESUM_CHECK_P4
#define WIRESUM_CHECK_P4

#include "headers.p4"
#include "work.p4"

/* Everything in the check but the lanes. */
control HeaderSum(in wiresum_header_h h, in wiresum_switch_header_h s, out bit<32> sum) {
    apply {
        sum = h.magic ++ h.version ++ h.kind;
        sum = sum + (h.job ++ h.node);
        sum = sum + h.job_key[63:32];
        sum = sum + h.job_key[31:0];
        sum = sum + h.round;
        sum = sum + h.fragment;
        sum = sum + (h.sub_model ++ h.value_count);
        sum = sum + (h.contributor ++ h.expected ++ h.exponent ++ h.priority);
        sum = sum + (bit<32>)h.flags;
        sum = sum + s.contributors[63:32];
        sum = sum + s.contributors[31:0];
        sum = sum + s.slot;
    }
}

/* The claimed lane sum of an arriving packet. */
control Unseal(in headers_t hdr, inout work_t w) {
    HeaderSum() header_sum;
    bit<32> sum;
    apply {
        header_sum.apply(hdr.wiresum, hdr.switched, sum);
        w.lane_sum = hdr.wiresum.check - sum;
    }
}

/* The check of a packet that leaves. */
control Seal(inout headers_t hdr, in bit<32> lane_sum) {
    HeaderSum() header_sum;
    bit<32> sum;
    apply {
        header_sum.apply(hdr.wiresum, hdr.switched, sum);
        hdr.wiresum.check = sum + lane_sum;
    }
}

/* Whether a datagram for our port has the form that spec/wire.md wants, its check apart. */
control Form(in headers_t hdr, out bool is_good) {
    bit<16> payload;
    bit<16> most;
    bool is_refusal;
    apply {
        most = WIRESUM_PAGE_VALUES;
        payload = hdr.wiresum.value_count << 2;
        if (hdr.wiresum.flags & WIRESUM_FLAG_LANES16 != 0) {
            most = 2 * WIRESUM_PAGE_VALUES;
            payload = hdr.wiresum.value_count << 1;
        }
        is_good = hdr.wiresum.isValid() && hdr.switched.isValid();
        is_good = is_good && hdr.wiresum.magic == WIRESUM_MAGIC && hdr.wiresum.version == WIRESUM_VERSION;
        is_good = is_good && hdr.wiresum.flags & WIRESUM_FLAG_SWITCHED != 0;
        is_good = is_good && hdr.wiresum.contributor < WIRESUM_MAX_SWITCHED_WORKERS;
        is_good = is_good && hdr.wiresum.value_count <= most;
        is_good = is_good && payload[4:0] == 0;
        is_good = is_good && hdr.udp.length == UDP_OVERHEAD + payload;
        is_good = is_good && hdr.ipv4.total_length == IPV4_OVERHEAD + payload;
        is_refusal = hdr.wiresum.kind == WIRESUM_KIND_RESULT && hdr.wiresum.flags & WIRESUM_FLAG_REFUSED != 0;
        if (hdr.wiresum.kind != WIRESUM_KIND_CONTRIBUTION && hdr.wiresum.kind != WIRESUM_KIND_RESULT) {
            is_good = false;
        }
        if (payload == 0 && !is_refusal) {
            is_good = false;
        }
    }
}

/* The sum of the lanes themselves. */
#define ADD_LANE(i) sum = sum + lanes.v##i;
#define ADD_HALVES(i) narrow = narrow + lanes.v##i[31:16] + lanes.v##i[15:0];
control LaneSum(in lanes_h lanes, in bit<16> flags, out bit<32> sum) {
    bit<16> narrow;
    apply {
        sum = 0;
        narrow = 0;
        if (lanes.isValid() && flags & WIRESUM_FLAG_LANES16 != 0) {
            FOR_EACH_LANE(ADD_HALVES)
            sum = (bit<32>)narrow;
        } else if (lanes.isValid()) {
            FOR_EACH_LANE(ADD_LANE)
        }
    }
}

/* The lane sum of what leaves: that of the slot, but of a maximum, which is not linear, that of its lanes. */
control LeavingSum(in headers_t hdr, inout bit<32> lane_sum) {
    LaneSum() of_lanes;
    apply {
        if (hdr.wiresum.flags & WIRESUM_FLAG_MAXIMUM != 0) {
            of_lanes.apply(hdr.lanes, hdr.wiresum.flags, lane_sum);
        } else if (hdr.wiresum.flags & WIRESUM_FLAG_LANES16 != 0) {
            lane_sum = lane_sum & 0xffff;
        }
    }
}

/* Little-endian lanes as numbers, or back. */
#define SWAP_LANE(i) lanes.v##i = lanes.v##i[7:0] ++ lanes.v##i[15:8] ++ lanes.v##i[23:16] ++ lanes.v##i[31:24];
#define SWAP_HALVES(i) lanes.v##i = lanes.v##i[23:16] ++ lanes.v##i[31:24] ++ lanes.v##i[7:0] ++ lanes.v##i[15:8];
control ByteOrder(inout lanes_h lanes, in bit<16> flags) {
    apply {
        if (lanes.isValid() && flags & WIRESUM_FLAG_LITTLE_ENDIAN != 0) {
            if (flags & WIRESUM_FLAG_LANES16 != 0) {
                FOR_EACH_LANE(SWAP_HALVES)
            } else {
                FOR_EACH_LANE(SWAP_LANE)
            }
        }
    }
}

#endif
