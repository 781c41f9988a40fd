/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `register` (InGo, with key and bitmap for its counter): a register is free again when its sum is complete.
 */
#include "registers.h"

static __always_inline __u32 slot_of(const struct arrival *arrival) { return chosen_slot(arrival); }

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    if (arrival->flags & WIRESUM_FLAG_RETRANSMISSION)
        return release(arrival, registers);
    enum relation relation = take(&registers->key, arrival->key, arrival->place->window);
    if (relation == NEWER || relation == OTHER)
        return collide(arrival);
    struct fate fate = add(arrival, registers, relation != SAME);
    if (fate.verdict == FORWARDED)
        free_slot(&registers->key, arrival->key);
    return fate;
}

static __always_inline struct fate result(struct arrival *arrival __attribute__((unused)),
                                          struct registers *registers __attribute__((unused))) {
    return pass_result();
}
