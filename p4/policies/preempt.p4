// SPDX-License-Identifier: Apache-2.0
/* `preempt` (ESA, arXiv 2201.06398): as `hash`, but the more urgent fragment has the slot, and what it finds there leaves in its
 * stead. */
#include "slots.p4"

control Policy(inout headers_t hdr, inout work_t w) {
    Slots() slots;
    ScaleCell() scales;
    LowestWorker() lowest;
    bit<3> key_op;
    bit<40> scale;
    apply {
        scale = 0;
        key_op = KEY_CLAIM;
        if (w.is_result == 1 || w.is_resent == 1) {
            key_op = KEY_FREE;
        }
        slots.apply(key_op, w.is_result, hdr, w);
        if (w.is_result == 1) {
            free_by_result(w);
        } else if (w.relation == RELATION_EVICTED || w.is_first == 1) {
            scales.apply(w.slot, hdr.wiresum.round ++ hdr.wiresum.exponent, scale);
        }
        if (w.is_result == 0 && w.relation == RELATION_EVICTED) {
            /* The packet is the evicted fragment's from now on; the table of owners knows its job and cohort. */
            w.is_evicted = 1;
            w.owner = w.held_key[47:32];
            hdr.wiresum.fragment = w.held_key[31:0];
            hdr.wiresum.round = scale[39:8];
            hdr.wiresum.exponent = scale[7:0];
            hdr.wiresum.priority = w.urgency;
            hdr.wiresum.expected = 0;
            lowest.apply(hdr.switched.contributors, hdr.wiresum.contributor);
        }
    }
}
