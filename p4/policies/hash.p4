// SPDX-License-Identifier: Apache-2.0
/* `hash` (ATP, NSDI 2021): first come, first served; what finds its slot taken goes up; a result frees the slot on its way back. */
#include "slots.p4"

control Policy(inout headers_t hdr, inout work_t w) {
    Slots() slots;
    bit<3> key_op;
    apply {
        key_op = KEY_TAKE;
        if (w.is_result == 1 || w.is_resent == 1) {
            key_op = KEY_FREE;
        }
        slots.apply(key_op, w.is_result, hdr, w);
        if (w.is_result == 1) {
            free_by_result(w);
        }
    }
}
