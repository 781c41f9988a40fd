/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `pool` and `cache`: two entries for each slot; results are kept until a position two slot counts on comes.
 */
#include "registers.h"

static __always_inline __u32 slot_of(const struct arrival *arrival) {
    const struct place *place = arrival->place;
    return 2 * place->base + (arrival->fragment & (2 * place->slots - 1));
}

static __always_inline struct fate reject(enum merge merge) {
    return absorb(merge == MERGE_OVERLAP ? OVERLAP : DUPLICATE);
}

static __always_inline struct fate send_sum(struct arrival *arrival, const struct registers *registers,
                                            enum merge merge) {
    int is_new = merge == MERGE_FIRST || merge == MERGE_ADDED;
    struct fate fate = {.change = change_of(merge), .leaving = WITH_THE_SUM};
    if (registers->is_final) {
        __u64 recipients = is_new ? registers->contributors : own_bit(arrival);
        turn_down(arrival, recipients, arrival->place->member_count);
        fate.verdict = is_new ? COMPLETED : ANSWERED;
        fate.egress = DOWN;
    } else {
        arrival->contributors = registers->contributors;
        fate.verdict = is_new ? FORWARDED : REFORWARDED;
        fate.egress = UP;
    }
    return fate;
}

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    const struct place *place = arrival->place;
    /* Positions of one entry are a multiple of 2 × slots apart. */
    enum relation relation = take(&registers->key, arrival->key, 2 * place->slots);
    if (relation == NEWER || relation == OTHER)
        return absorb(STALE);
    int is_first = relation != SAME;
    enum merge merge = enter(&registers->contributors, arrival->contributors, is_first);
    int is_complete = registers->contributors == place->members;
    int is_new = merge == MERGE_FIRST || merge == MERGE_ADDED;
    if (is_new)
        registers->is_final = is_complete && place->is_root;
    if (is_complete)
        return send_sum(arrival, registers, merge);
    if (!is_new)
        return reject(merge);
    struct fate fate = {.verdict = is_first ? FIRST : ADDED, .change = change_of(merge)};
    return fate;
}

static __always_inline struct fate result(struct arrival *arrival, struct registers *registers) {
    if ((registers->key & IDENTITY) != arrival->key || registers->contributors != arrival->place->members ||
        registers->is_final)
        return pass_result();
    registers->is_final = 1;
    struct fate fate = {.verdict = STORED, .egress = DOWN, .change = TAKE};
    return fate;
}
