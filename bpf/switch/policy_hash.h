/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `hash` (ATP): first come, first served; what finds its slot taken goes up. A result frees the slot on its
 * way back; a packet that is sent again forces out what the slot has. */
#include "registers.h"

static __always_inline __u32 slot_of(const struct arrival *arrival) { return chosen_slot(arrival); }

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    if (arrival->flags & WIRESUM_FLAG_RETRANSMISSION)
        return release(arrival, registers);
    enum relation relation = take(&registers->key, arrival->key, arrival->place->window);
    if (relation == NEWER || relation == OTHER)
        return collide(arrival);
    return add(arrival, registers, relation != SAME);
}

static __always_inline struct fate result(struct arrival *arrival, struct registers *registers) {
    return free_by_result(arrival, registers);
}
