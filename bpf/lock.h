/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* One CPU at a time at an entry.
 *
 * The kernel's own lock for programs, bpf_spin_lock, disables interrupts, which takes longer than all else
 * that it does. Nothing here runs in one: frames are taken in softirqs, of which a CPU runs one at a time,
 * and test-runs keep those off. Where that does not hold (PREEMPT_RT, kernels whose test-runs do not), a CPU
 * could wait for itself; so waiting has an end, and the packet is dropped as if the network had done it. */
#ifndef WIRESUM_LOCK_H
#define WIRESUM_LOCK_H

#include "config.h"

/* Looks at a lock that is taken; a millisecond or so, against less than one microsecond that it is held. */
#define MAX_LOOKS (1 << 16)

struct wait {
    __u32 *word;
    int has_lock;
};

/* Writes only when there is something to gain: the line stays with the CPU that holds the lock. */
static long look_again(__u64 look __attribute__((unused)), struct wait *wait) {
    wait->has_lock = !*(volatile __u32 *)wait->word && !__sync_lock_test_and_set(wait->word, 1);
    return wait->has_lock;
}

/* Whether a lock that was taken was not to be had. A global function, so that the verifier does not go
 * through what follows a second time, for those who had to wait. */
__attribute__((noinline)) int wait_in_vain(__u32 *word) {
    if (!word)
        return 1;
    struct wait wait = {.word = word};
    bpf_loop(MAX_LOOKS, look_again, &wait, 0);
    return !wait.has_lock;
}

/* Whether the lock was not to be had. */
static __always_inline int lock(__u32 *word) {
    if (!config.lock_entries || !__sync_lock_test_and_set(word, 1))
        return 0;
    return wait_in_vain(word);
}

/* An exchange, as it orders what was written before it on every processor; a store would not. */
static __always_inline void unlock(__u32 *word) {
    if (config.lock_entries)
        __sync_lock_test_and_set(word, 0);
}

#endif
