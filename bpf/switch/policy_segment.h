/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `segment` (P4INC-AOI): a job's own segment. The sum goes straight back; a copy of it, the shadow, stays
 * until the slot's next fragment is complete. Who comes too early is told so by a mark. */
#define HAS_SHADOW
#include "registers.h"

/* A result of this age or more may be forgotten. */
#define ANY_AGE 1

static __always_inline __u32 slot_of(const struct arrival *arrival) { return chosen_slot(arrival); }

/* Back to its sender, marked. */
static __always_inline struct fate refuse(struct arrival *arrival) {
    turn_down(arrival, own_bit(arrival), 0);
    arrival->flags |= WIRESUM_FLAG_REFUSED | WIRESUM_FLAG_ECN;
    struct fate fate = {.verdict = REFUSED, .egress = DOWN, .leaving = WITH_NONE};
    return fate;
}

/* A fragment that is complete: its sender lacks the result. Below a server what is kept is a partial sum, and
 * the server answers. */
static __always_inline struct fate answer(struct arrival *arrival) {
    const struct place *place = arrival->place;
    struct fate fate = {.leaving = WITH_THE_SHADOW};
    if (place->is_root) {
        turn_down(arrival, own_bit(arrival), place->member_count);
        fate.verdict = ANSWERED;
        fate.egress = DOWN;
    } else {
        arrival->contributors = place->members;
        fate.verdict = REFORWARDED;
        fate.egress = UP;
    }
    return fate;
}

/* The sum is the one that is kept now, and the slot is free. */
static __always_inline struct fate complete(struct arrival *arrival, struct registers *registers,
                                            enum merge merge) {
    const struct place *place = arrival->place;
    struct fate fate = {.change = change_of(merge), .leaving = WITH_THE_SUM, .keeps = 1};
    registers->shadow_key = arrival->key;
    registers->key = 0;
    if (place->is_root) {
        turn_down(arrival, registers->contributors, place->member_count);
        fate.verdict = COMPLETED;
        fate.egress = DOWN;
    } else {
        arrival->contributors = registers->contributors;
        fate.verdict = FORWARDED;
        fate.egress = UP;
    }
    return fate;
}

static __always_inline struct fate add_to_segment(struct arrival *arrival, struct registers *registers,
                                                  int is_first) {
    enum merge merge = enter(&registers->contributors, arrival->contributors, is_first);
    if (merge == MERGE_DUPLICATE || merge == MERGE_OVERLAP)
        return absorb(merge == MERGE_OVERLAP ? OVERLAP : DUPLICATE);
    if (registers->contributors == arrival->place->members)
        return complete(arrival, registers, merge);
    struct fate fate = {.verdict = is_first ? FIRST : ADDED, .change = change_of(merge)};
    return fate;
}

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    if (arrival->flags & WIRESUM_FLAG_EARLY)
        return refuse(arrival);
    enum relation kept = relate(registers->shadow_key & IDENTITY, arrival->key, ANY_AGE);
    if (kept == SAME)
        return answer(arrival);
    if (kept == NEWER)
        return absorb(STALE);
    /* A fragment here is not complete. One of a window ago was completed past a switch that has forgotten a
     * part of it. */
    enum relation relation = take(&registers->key, arrival->key, arrival->place->window);
    if (relation != SAME && relation != FREE && relation != FINISHED)
        return refuse(arrival);
    return add_to_segment(arrival, registers, relation != SAME);
}

static __always_inline struct fate result(struct arrival *arrival __attribute__((unused)),
                                          struct registers *registers __attribute__((unused))) {
    return pass_result();
}
