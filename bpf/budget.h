/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef WIRESUM_BUDGET_H
#define WIRESUM_BUDGET_H

#include <linux/types.h>

/* A bound on bytes per second; see quota.h. */
struct budget {
    __u64 byte_cost; /* nanoseconds × 2^16 that a byte takes; 0: no bound */
    __u64 burst;     /* nanoseconds that may be used in advance */
    __u64 due;       /* when all that was let through is paid for */
};

#endif
