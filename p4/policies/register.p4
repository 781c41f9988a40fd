// SPDX-License-Identifier: Apache-2.0
/* `register` (InGo, Alg. 1, with key and bitmap): the packet that completes a sum goes round once more, to free the register. */
#include "slots.p4"

control Policy(inout headers_t hdr, inout work_t w) {
    Slots() slots;
    bit<3> key_op;
    apply {
        if (w.is_result == 1) {
            w.verdict = VERDICT_PASSED;
            w.egress = EGRESS_DOWN;
        } else {
            key_op = KEY_TAKE;
            if (w.is_second == 1 || w.is_resent == 1) {
                key_op = KEY_FREE;
            }
            slots.apply(key_op, w.is_second, hdr, w);
            if (w.is_second == 1) {
                w.egress = EGRESS_UP;
            } else if (w.verdict == VERDICT_FORWARDED) {
                w.goes_again = 1;
            }
        }
    }
}
