// SPDX-License-Identifier: Apache-2.0
/* The program of `pool` and `cache`: two entries for each slot, no server, results kept until a position two slot counts on comes. */
#define ENTRIES (2 * SLOTS)
#include "../include/turning.p4"
#include "cells.p4"

control Policy(inout headers_t hdr, inout work_t w) {
    OneWorker() one;
    KeyCell() keys;
    ContributorsCell() contributors;
    FlagCell() finals;
    Bank() values;
    contributors_t sender;
    bit<32> span;
    bit<2> op;
    bit<1> enters;
    bit<1> is_new;
    bit<1> was_final;
    bit<1> is_final;
    apply {
        one.apply(hdr.wiresum.contributor, sender);
        span = w.place.slots << 1;
        w.slot = (w.place.base << 1) + (w.key[31:0] & (span - 1));
        keys.apply(w.is_result == 1 ? KEY_READ : KEY_TAKE, w.slot, w.key, span, 0, w.relation, w.held_key, w.urgency);
        w.is_first = w.relation == RELATION_FREE || w.relation == RELATION_FINISHED ? 1w1 : 0;
        enters = w.relation == RELATION_SAME || (w.is_first == 1 && w.is_result == 0) ? 1w1 : 0;
        is_new = 0;
        w.is_complete = 0;
        was_final = 1;
        is_final = 0;
        if (enters == 1) {
            op = CELL_JOIN;
            if (w.is_result == 1) {
                op = CELL_READ;
            } else if (w.is_first == 1) {
                op = CELL_WRITE;
            }
            contributors.apply(op, w.slot, hdr.switched.contributors, w.held, w.merge);
            is_new = w.is_result == 0 && (w.merge == MERGE_FIRST || w.merge == MERGE_ADDED) ? 1w1 : 0;
            w.is_complete = w.held == w.place.members ? 1w1 : 0;
            /* The result is in the place of the sum once the root has completed it, or a result has come. */
            bit<1> makes_final = w.is_complete;
            op = CELL_READ;
            if (w.is_result == 1) {
                op = w.is_complete == 1 ? CELL_EXCHANGE : CELL_READ;
            } else if (is_new == 1) {
                op = CELL_WRITE;
                makes_final = w.is_complete & ~w.place.has_parent;
            }
            finals.apply(op, w.slot, makes_final, was_final, is_final);
            op = CELL_READ;
            if (is_new == 1) {
                op = w.is_first == 1 ? CELL_WRITE : CELL_JOIN;
            } else if (w.is_result == 1) {
                op = CELL_WRITE;
            }
            if ((w.is_result == 0 && (is_new == 1 || w.is_complete == 1))
                || (w.is_result == 1 && w.is_complete == 1 && was_final == 0)) {
                values.apply(op, w.slot, w.place.lanes, hdr.lanes, w.lane_sum);
            }
        }

        w.egress = EGRESS_NOWHERE;
        if (w.is_result == 1) {
            w.verdict = w.is_complete == 1 && was_final == 0 ? VERDICT_STORED : VERDICT_PASSED;
            w.egress = EGRESS_DOWN;
        } else if (enters == 0) {
            w.verdict = VERDICT_STALE;
        } else if (w.is_complete == 0) {
            w.verdict = w.is_first == 1 ? VERDICT_FIRST : VERDICT_ADDED;
            if (is_new == 0) {
                w.verdict = w.merge == MERGE_OVERLAP ? VERDICT_OVERLAP : VERDICT_DUPLICATE;
            }
        } else if (is_final == 1 && is_new == 1) {
            w.verdict = VERDICT_COMPLETED;
            turn_down(hdr, w, w.held, w.place.member_count);
        } else if (is_final == 1) {
            w.verdict = VERDICT_ANSWERED;
            turn_down(hdr, w, sender, w.place.member_count);
        } else {
            w.verdict = is_new == 1 ? VERDICT_FORWARDED : VERDICT_REFORWARDED;
            w.egress = EGRESS_UP;
            hdr.switched.contributors = w.held;
        }
    }
}
