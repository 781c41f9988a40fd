/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Bounds on bytes per second, as wiresum_protocol::Quota counts them. Whoever includes this has the map
 * `budgets`. */
#ifndef WIRESUM_QUOTA_H
#define WIRESUM_QUOTA_H

#include "budget.h"

/* Fraction bits of budget.byte_cost. */
#define COST_SHIFT 16
/* CPUs that may be at the same budget at once before one of them gives its packet up: a job's packets come in
 * on a few, and losing one costs a repetition, not the sum. */
#define MAX_ATTEMPTS 8

/* A packet takes time from its budget, in proportion to its length: it is over if that would be paid for only
 * a burst from now. One word of state, so no lock is needed. */
static __always_inline int is_over_budget(__u32 index, __u32 len) {
    struct budget *budget = bpf_map_lookup_elem(&budgets, &index);
    if (!budget || !budget->byte_cost)
        return 0;
    __u64 now = bpf_ktime_get_ns(), cost = len * budget->byte_cost >> COST_SHIFT;
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        __u64 due = *(volatile __u64 *)&budget->due;
        __u64 next = (due > now ? due : now) + cost;
        if (next > now + budget->burst)
            return 1;
        if (__sync_val_compare_and_swap(&budget->due, due, next) == due)
            return 0;
    }
    return 1;
}

#endif
