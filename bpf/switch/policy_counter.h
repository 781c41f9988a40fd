/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `register-counter` (InGo, Alg. 1, as printed): complete when the numbers of those who contributed add up.
 * **Not for use**: sums may be wrong; it is here so that this can be seen. */
#include "registers.h"

static __always_inline __u32 slot_of(const struct arrival *arrival) { return chosen_slot(arrival); }

/* The sum of the workers' numbers, which are from 1. */
static __always_inline __u32 sum_numbers(__u64 workers) {
    __u32 sum = 0;
    for (int i = 0; i < WIRESUM_MAX_CONTRIBUTORS && workers; i++) {
        sum += lowest_bit(workers) + 1;
        workers &= workers - 1;
    }
    return sum;
}

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    const struct place *place = arrival->place;
    __u32 number = sum_numbers(arrival->contributors);
    /* A register whose count has passed the mark counts on, and wraps. */
    registers->count = registers->count == place->number_sum ? number : registers->count + number;
    int is_first = registers->count == number;
    struct fate fate = {.verdict = is_first ? FIRST : ADDED, .change = is_first ? TAKE : SUM_UP};
    if (registers->count == place->number_sum) {
        arrival->contributors = place->members;
        fate.verdict = FORWARDED;
        fate.egress = UP;
        fate.leaving = WITH_THE_SUM;
    }
    return fate;
}

static __always_inline struct fate result(struct arrival *arrival __attribute__((unused)),
                                          struct registers *registers __attribute__((unused))) {
    return pass_result();
}
