// SPDX-License-Identifier: Apache-2.0
/* A packet's way through the switch: its stream is looked up, the policy decides, what leaves is addressed and sealed. The control
 * plane fills the tables; nothing in the data plane does. */
#ifndef WIRESUM_AGGREGATION_P4
#define WIRESUM_AGGREGATION_P4

#include "check.p4"
#include "headers.p4"
#include "work.p4"

/* Most streams in the tables. */
#define STREAMS 1024

/* What is summed here, for the packet's cohort. */
control Place(in headers_t hdr, inout work_t w) {
    cohort_t cohort;

    action sum(bit<16> number, contributors_t members, bit<8> member_count, bit<16> node, bit<1> has_parent,
               bit<32> base, bit<32> slots, bit<32> window, bit<16> lanes) {
        w.is_known = 1;
        w.owner = number;
        w.place.number = number;
        w.place.members = members;
        w.place.member_count = member_count;
        w.place.node = node;
        w.place.has_parent = has_parent;
        w.place.base = base;
        w.place.slots = slots;
        w.place.window = window;
        w.place.lanes = lanes;
    }

    action pass() {
        w.is_known = 0;
    }

    table places {
        key = {
            hdr.wiresum.job: exact;
            hdr.wiresum.sub_model: exact;
            cohort: exact;
        }
        actions = { sum; pass; }
        const default_action = pass();
        size = STREAMS;
    }

    action forget() {
        w.is_forgotten = 1;
    }

    action remember() {
        w.is_forgotten = 0;
    }

    /* Streams of jobs that ran before the switch began: what is sent again may have been summed then. */
    table forgotten {
        key = { w.place.number: exact; }
        actions = { forget; remember; }
        const default_action = remember();
        size = STREAMS;
    }

#ifdef WHOLE_CHILDREN_IN_NETWORK_ORDER
    action is_child() {}

    action is_stranger() {
        w.is_known = 0;
    }

    /* What a child sends when it has summed everything below it: what comes in other sets is left to the parent. */
    table children {
        key = {
            hdr.wiresum.job: exact;
            hdr.wiresum.sub_model: exact;
            cohort: exact;
            hdr.switched.contributors: exact;
        }
        actions = { is_child; is_stranger; }
        const default_action = is_stranger();
        size = STREAMS * WIRESUM_MAX_CONTRIBUTORS;
    }
#endif

    contributors_t strangers;
    apply {
        cohort = hdr.wiresum.contributor[7:6];
        places.apply();
        w.is_forgotten = 0;
        if (w.is_known == 1 && w.is_resent == 1) {
            forgotten.apply();
        }
#ifdef WHOLE_CHILDREN_IN_NETWORK_ORDER
        if (hdr.wiresum.flags & (WIRESUM_FLAG_LITTLE_ENDIAN | WIRESUM_FLAG_LANES16) != 0) {
            w.is_known = 0;
        } else if (w.is_result == 0 && w.is_second == 0) {
            children.apply();
        }
#endif
        w.key = w.place.number ++ hdr.wiresum.fragment;
        strangers = hdr.switched.contributors & ~w.place.members;
        w.is_concerned = 0;
        if (w.is_known == 1 && hdr.lanes.isValid() && hdr.wiresum.flags & MERGED_LANES == w.place.lanes) {
            if (w.is_second == 1) {
                w.is_concerned = 1;
            } else if (w.is_result == 1) {
                w.is_concerned = hdr.wiresum.flags & WIRESUM_FLAG_REFUSED == 0 ? 1w1 : 0;
            } else if (hdr.wiresum.node == ANY_NODE || hdr.wiresum.node == w.place.node) {
                w.is_concerned = hdr.switched.contributors != 0 && strangers == 0 ? 1w1 : 0;
            }
        }
    }
}

/* The job whose packet leaves, and the node that its sums are for: after an eviction of another stream, with its lanes. */
control Owner(inout headers_t hdr, inout work_t w, out bit<16> parent) {
    cohort_t its_cohort;

    action owner(bit<16> job, bit<16> sub_model, cohort_t cohort, bit<16> node, bit<16> lanes) {
        parent = node;
        its_cohort = cohort;
        hdr.wiresum.job = job;
        hdr.wiresum.sub_model = sub_model;
        hdr.wiresum.flags = (hdr.wiresum.flags & ~MERGED_LANES) | lanes;
    }

    table owners {
        key = { w.owner: exact; }
        actions = { owner; }
        size = STREAMS;
    }

    apply {
        parent = 0;
        its_cohort = 0;
        if (w.egress != EGRESS_NOWHERE) {
            owners.apply();
        }
        if (w.is_evicted == 1) {
            hdr.wiresum.contributor = hdr.wiresum.contributor + (its_cohort ++ (member_t)0);
            hdr.wiresum.value_count = hdr.wiresum.flags & WIRESUM_FLAG_LANES16 != 0 ? (bit<16>)(2 * LANES) : (bit<16>)LANES;
        }
    }
}

/* One packet of a stream, from its lookup to its seal. */
control Aggregation(inout headers_t hdr, inout work_t w) {
    Place() place;
    Policy() policy;
    Owner() owner;
    LeavingSum() leaving_sum;
    Seal() seal;
    bit<16> parent;
    apply {
        w.is_result = hdr.wiresum.kind == WIRESUM_KIND_RESULT ? 1w1 : 0;
        w.is_resent = hdr.wiresum.flags[3:3];
        w.is_evicted = 0;
        w.goes_again = 0;
        w.verdict = VERDICT_PASSED;
        w.egress = w.is_result == 1 ? EGRESS_DOWN : EGRESS_UP;
        place.apply(hdr, w);
        if (w.is_concerned == 1) {
            bit<1> was_result = w.is_result;
            if (w.is_forgotten == 1 && w.is_result == 0) {
                w.verdict = VERDICT_BYPASSED;
            } else {
                policy.apply(hdr, w);
            }
            if (was_result == 0) {
                owner.apply(hdr, w, parent);
                /* What was addressed to this switch, or to the one whose fragment left instead, is for the place's parent. */
                if (w.place.has_parent == 1 && w.egress != EGRESS_NOWHERE
                    && (hdr.wiresum.node == w.place.node || (w.is_evicted == 1 && hdr.wiresum.node != ANY_NODE))) {
                    hdr.wiresum.node = parent;
                }
                leaving_sum.apply(hdr, w.lane_sum);
                seal.apply(hdr, w.lane_sum);
            }
        }
        if (w.is_concerned == 1 || w.egress == EGRESS_DOWN) {
            /* IPv4 allows none; the check covers what it would. */
            hdr.udp.checksum = 0;
        }
    }
}

#endif
