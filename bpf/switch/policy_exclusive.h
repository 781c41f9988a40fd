/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `exclusive` (GOAT): each fragment in a slot of its own, planned to fit. */
#include "registers.h"

static __always_inline __u32 slot_of(const struct arrival *arrival) {
    const struct place *place = arrival->place;
    __u32 offset = arrival->fragment % place->window;
    return offset < place->slots ? place->base + offset : NO_SLOT;
}

static __always_inline struct fate add_exclusively(struct arrival *arrival, struct registers *registers,
                                                   int is_first) {
    enum merge merge = enter(&registers->contributors, arrival->contributors, is_first);
    int is_complete = registers->contributors == arrival->place->members;
    int is_resent = !!(arrival->flags & WIRESUM_FLAG_RETRANSMISSION);
    if (merge == MERGE_OVERLAP)
        return as_it_is(OVERLAP, UP);
    if (merge == MERGE_DUPLICATE && !(is_complete && is_resent))
        return absorb(DUPLICATE);
    struct fate fate = {.verdict = is_first ? FIRST : ADDED, .change = change_of(merge)};
    if (is_complete) {
        arrival->contributors = registers->contributors;
        fate.verdict = merge == MERGE_DUPLICATE ? REFORWARDED : FORWARDED;
        fate.egress = UP;
        fate.leaving = WITH_THE_SUM;
    }
    return fate;
}

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    enum relation relation = take(&registers->key, arrival->key, arrival->place->window);
    if (relation == NEWER)
        return as_it_is(BYPASSED, UP);
    if (relation == OTHER)
        return collide(arrival);
    return add_exclusively(arrival, registers, relation != SAME);
}

static __always_inline struct fate result(struct arrival *arrival __attribute__((unused)),
                                          struct registers *registers __attribute__((unused))) {
    return pass_result();
}
