// SPDX-License-Identifier: Apache-2.0
/* `register-counter` (InGo, Alg. 1, lines 10–25, as printed). **Not for use**: worker 3 stands for workers 1 and 2, nothing tells
 * fragments apart, nothing tells a repetition. It is here so that this can be seen. */
#define ENTRIES SLOTS
#include "../include/turning.p4"
#include "cells.p4"

/* The sum of the workers' numbers, which are from 1. */
#define ADD_NUMBER(i) \
    if (workers[i:i] == 1) { sum = sum + i + 1; }
control Numbers(in contributors_t workers, out bit<32> sum) {
    apply {
        sum = 0;
        FOR_EACH_WORKER(ADD_NUMBER)
    }
}

control Policy(inout headers_t hdr, inout work_t w) {
    ChosenSlot() choice;
    Numbers() of_packet;
    Numbers() of_members;
    CountCell() counts;
    Bank() values;
    bit<32> number;
    bit<32> mark;
    bit<32> count;
    apply {
        choice.apply(hdr.switched, w);
        if (w.is_result == 1) {
            w.verdict = VERDICT_PASSED;
            w.egress = EGRESS_DOWN;
        } else if (w.has_slot == 0) {
            collide(hdr.wiresum, w);
        } else {
            of_packet.apply(hdr.switched.contributors, number);
            of_members.apply(w.place.members, mark);
            counts.apply(w.slot, number, mark, count);
            values.apply(count == number ? CELL_WRITE : CELL_JOIN, w.slot, w.place.lanes, hdr.lanes, w.lane_sum);
            if (count == mark) {
                w.verdict = VERDICT_FORWARDED;
                w.egress = EGRESS_UP;
                hdr.switched.contributors = w.place.members;
            } else {
                w.verdict = count == number ? VERDICT_FIRST : VERDICT_ADDED;
                w.egress = EGRESS_NOWHERE;
            }
        }
    }
}
