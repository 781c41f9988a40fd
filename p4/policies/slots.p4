// SPDX-License-Identifier: Apache-2.0
/* What `hash`, `preempt` and `register` share, whose slots are chosen by the sender: taking, adding, forcing out. */
#ifndef WIRESUM_SLOTS_P4
#define WIRESUM_SLOTS_P4

#define ENTRIES SLOTS
#include "../include/turning.p4"
#include "cells.p4"

/* Adds the packet to its slot, or changes places with what is there. */
control SlotSum(in bit<2> op, inout headers_t hdr, inout work_t w) {
    ContributorsCell() contributors;
    FlagCell() congestion;
    Bank() values;
    bit<1> was_marked;
    bit<1> is_marked;
    bit<2> values_op;
    apply {
        contributors.apply(op, w.slot, hdr.switched.contributors, w.held, w.merge);
        values_op = CELL_READ;
        if (op == CELL_EXCHANGE) {
            values_op = CELL_EXCHANGE;
        } else if (w.merge == MERGE_FIRST) {
            values_op = CELL_WRITE;
        } else if (w.merge == MERGE_ADDED) {
            values_op = CELL_JOIN;
        }
        /* A repetition that is in already takes along what is there. */
        if (values_op != CELL_READ || (w.merge == MERGE_DUPLICATE && w.is_resent == 1)) {
            congestion.apply(op, w.slot, hdr.wiresum.flags[5:5], was_marked, is_marked);
            values.apply(values_op, w.slot, w.place.lanes, hdr.lanes, w.lane_sum);
            if (op == CELL_EXCHANGE) {
                hdr.wiresum.flags = hdr.wiresum.flags & (WIRESUM_FLAG_FORMAT | WIRESUM_FLAG_SWITCHED);
                hdr.wiresum.flags[5:5] = was_marked;
            } else if (is_marked == 1) {
                hdr.wiresum.flags[5:5] = 1;
            }
        }
    }
}

/* The fate of a contribution that entered its slot. */
control SlotOutcome(inout headers_t hdr, inout work_t w) {
    apply {
        w.egress = EGRESS_UP;
        if (w.relation == RELATION_EVICTED) {
            w.verdict = VERDICT_EVICTED;
            hdr.switched.contributors = w.held;
        } else if (w.merge == MERGE_OVERLAP) {
            w.verdict = VERDICT_OVERLAP;
        } else if (w.is_resent == 1) {
            w.verdict = VERDICT_RELEASED;
            hdr.switched.contributors = w.held;
        } else if (w.merge == MERGE_DUPLICATE) {
            w.verdict = VERDICT_DUPLICATE;
            w.egress = EGRESS_NOWHERE;
        } else if (w.held == w.place.members) {
            w.verdict = VERDICT_FORWARDED;
            hdr.switched.contributors = w.held;
        } else {
            w.verdict = w.is_first == 1 ? VERDICT_FIRST : VERDICT_ADDED;
            w.egress = EGRESS_NOWHERE;
        }
    }
}

/* A packet whose slot is the sender's choice. Of a result, and of a packet's second way, the key alone is looked at. */
control Slots(in bit<3> key_op, in bit<1> is_key_only, inout headers_t hdr, inout work_t w) {
    ChosenSlot() choice;
    KeyCell() keys;
    SlotSum() sum;
    SlotOutcome() outcome;
    bit<1> enters;
    bit<2> op;
    apply {
        choice.apply(hdr.switched, w);
        enters = 0;
        op = CELL_JOIN;
        w.is_first = 0;
        w.relation = RELATION_OTHER;
        if (w.has_slot == 1) {
            keys.apply(key_op, w.slot, w.key, w.place.window, hdr.wiresum.priority, w.relation, w.held_key, w.urgency);
        }
        if (w.relation == RELATION_SAME) {
            enters = 1;
        } else if (w.relation == RELATION_EVICTED) {
            enters = 1;
            op = CELL_EXCHANGE;
        } else if (w.is_resent == 0 && (w.relation == RELATION_FREE || w.relation == RELATION_FINISHED)) {
            enters = 1;
            w.is_first = 1;
            op = CELL_WRITE;
        }
        if (is_key_only == 0) {
            if (enters == 1) {
                sum.apply(op, hdr, w);
                outcome.apply(hdr, w);
            } else if (w.has_slot == 1 && w.is_resent == 1) {
                w.verdict = VERDICT_BYPASSED;
                w.egress = EGRESS_UP;
            } else {
                collide(hdr.wiresum, w);
            }
        }
    }
}

/* The result passes back, and has freed the slot of its fragment. */
action free_by_result(inout work_t w) {
    w.verdict = w.relation == RELATION_SAME ? VERDICT_FREED : VERDICT_PASSED;
    w.egress = EGRESS_DOWN;
}

#endif
