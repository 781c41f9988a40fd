// SPDX-License-Identifier: Apache-2.0
/* `exclusive` (GOAT, §III-B): a switch sums only what is addressed to it, each fragment in a slot of its own. */
#define ENTRIES SLOTS
#include "../include/turning.p4"
#include "cells.p4"

control Policy(inout headers_t hdr, inout work_t w) {
    KeyCell() keys;
    ContributorsCell() contributors;
    Bank() values;
    bit<32> offset;
    bit<2> op;
    bit<1> enters;
    bit<1> sums;
    apply {
        REMAINDER(offset, w.key[31:0], w.place.window);
        w.slot = w.place.base + offset;
        w.relation = RELATION_OTHER;
        enters = 0;
        sums = 0;
        w.is_first = 0;
        op = CELL_JOIN;
        if (w.is_result == 0 && offset < w.place.slots) {
            keys.apply(KEY_TAKE, w.slot, w.key, w.place.window, 0, w.relation, w.held_key, w.urgency);
        }
        if (w.relation == RELATION_SAME) {
            enters = 1;
        } else if (w.relation == RELATION_FREE || w.relation == RELATION_FINISHED) {
            enters = 1;
            w.is_first = 1;
            op = CELL_WRITE;
        }
        if (enters == 1) {
            contributors.apply(op, w.slot, hdr.switched.contributors, w.held, w.merge);
            if (w.merge == MERGE_DUPLICATE) {
                op = CELL_READ;
                sums = w.held == w.place.members ? w.is_resent : 0;
            } else if (w.merge != MERGE_OVERLAP) {
                sums = 1;
            }
            if (sums == 1) {
                values.apply(op, w.slot, w.place.lanes, hdr.lanes, w.lane_sum);
            }
        }
        w.egress = EGRESS_UP;
        if (w.is_result == 1) {
            w.verdict = VERDICT_PASSED;
            w.egress = EGRESS_DOWN;
        } else if (w.relation == RELATION_NEWER) {
            w.verdict = VERDICT_BYPASSED;
        } else if (enters == 0) {
            collide(hdr.wiresum, w);
        } else if (w.merge == MERGE_OVERLAP) {
            w.verdict = VERDICT_OVERLAP;
        } else if (sums == 0) {
            w.verdict = VERDICT_DUPLICATE;
            w.egress = EGRESS_NOWHERE;
        } else if (w.held == w.place.members) {
            w.verdict = w.merge == MERGE_DUPLICATE ? VERDICT_REFORWARDED : VERDICT_FORWARDED;
            hdr.switched.contributors = w.held;
        } else {
            w.verdict = w.is_first == 1 ? VERDICT_FIRST : VERDICT_ADDED;
            w.egress = EGRESS_NOWHERE;
        }
    }
}
