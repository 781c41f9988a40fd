// SPDX-License-Identifier: Apache-2.0
/* `segment` (P4INC-AOI §VI-B): the result goes straight back, and a copy of it stays until the slot's next fragment is complete. */
#define ENTRIES SLOTS
#include "../include/turning.p4"
#include "cells.p4"

/* A kept result of this age or more may be forgotten: fragments of a slot are apart by any number from 1. */
const bit<32> ANY_AGE = 1;

control Policy(inout headers_t hdr, inout work_t w) {
    ChosenSlot() choice;
    OneWorker() one;
    KeyCell() shadow_keys;
    KeyCell() keys;
    ContributorsCell() contributors;
    Bank() values;
    Bank() shadow;
    contributors_t sender;
    bit<3> kept;
    bit<1> enters;
    bit<1> sums;
    bit<1> answers;
    apply {
        choice.apply(hdr.switched, w);
        one.apply(hdr.wiresum.contributor, sender);
        kept = RELATION_OTHER;
        w.relation = RELATION_OTHER;
        w.is_first = 0;
        w.is_complete = 0;
        enters = 0;
        sums = 0;
        answers = 0;
        bool is_looked_up = w.is_second == 1 || (w.is_result == 0 && hdr.wiresum.flags & WIRESUM_FLAG_EARLY == 0);
        if (w.has_slot == 1 && is_looked_up) {
            shadow_keys.apply(w.is_second == 1 ? KEY_STORE : KEY_READ, w.slot, w.key, ANY_AGE, 0,
                              kept, w.held_key, w.urgency);
            if (w.is_second == 1 || (kept != RELATION_SAME && kept != RELATION_NEWER)) {
                // A fragment here is not complete. One of a window ago was completed past a switch that has forgotten
                // a part of it.
                keys.apply(w.is_second == 1 ? KEY_FREE : KEY_TAKE, w.slot, w.key, w.place.window, 0,
                           w.relation, w.held_key, w.urgency);
            } else if (kept == RELATION_SAME) {
                answers = 1;
            }
        }
        bool is_taken = w.relation == RELATION_FREE || w.relation == RELATION_FINISHED;
        if (w.is_second == 0 && (w.relation == RELATION_SAME || is_taken)) {
            enters = 1;
            w.is_first = is_taken ? 1w1 : 0;
            contributors.apply(w.is_first == 1 ? CELL_WRITE : CELL_JOIN, w.slot, hdr.switched.contributors,
                               w.held, w.merge);
            if (w.merge == MERGE_FIRST || w.merge == MERGE_ADDED) {
                sums = 1;
                values.apply(w.is_first == 1 ? CELL_WRITE : CELL_JOIN, w.slot, w.place.lanes, hdr.lanes, w.lane_sum);
                if (w.held == w.place.members) {
                    w.is_complete = 1;
                }
            }
        }
        if (w.is_complete == 1 || answers == 1) {
            shadow.apply(answers == 1 ? CELL_READ : CELL_WRITE, w.slot, w.place.lanes, hdr.lanes, w.lane_sum);
        }

        w.egress = EGRESS_NOWHERE;
        if (w.is_second == 1) {
            w.egress = w.is_result == 1 ? EGRESS_DOWN : EGRESS_UP;
        } else if (w.is_result == 1) {
            w.verdict = VERDICT_PASSED;
            w.egress = EGRESS_DOWN;
        } else if (w.has_slot == 0) {
            collide(hdr.wiresum, w);
        } else if (answers == 1 && w.place.has_parent == 1) {
            w.verdict = VERDICT_REFORWARDED;
            w.egress = EGRESS_UP;
            hdr.switched.contributors = w.place.members;
        } else if (answers == 1) {
            w.verdict = VERDICT_ANSWERED;
            turn_down(hdr, w, sender, w.place.member_count);
        } else if (kept == RELATION_NEWER) {
            w.verdict = VERDICT_STALE;
        } else if (enters == 0) {
            refuse(hdr, w, sender);
        } else if (sums == 0) {
            w.verdict = w.merge == MERGE_OVERLAP ? VERDICT_OVERLAP : VERDICT_DUPLICATE;
        } else if (w.is_complete == 0) {
            w.verdict = w.is_first == 1 ? VERDICT_FIRST : VERDICT_ADDED;
        } else if (w.place.has_parent == 1) {
            w.verdict = VERDICT_FORWARDED;
            w.egress = EGRESS_UP;
            w.goes_again = 1;
            hdr.switched.contributors = w.held;
        } else {
            w.verdict = VERDICT_COMPLETED;
            w.goes_again = 1;
            turn_down(hdr, w, w.held, w.place.member_count);
        }
    }
}
