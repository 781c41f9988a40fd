/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A stream leaves. The control plane runs this through the kernel's test-run, on a frame that says which, so
 * that slots are freed under their locks while other streams' packets come. */
#ifndef WIRESUM_SWITCH_FORGET_H
#define WIRESUM_SWITCH_FORGET_H

#include "../lock.h"
#include "registers.h"

/* The frame: free the slots in a range that hold a fragment of the stream with this number, or all of them.
 */
struct forgetting {
    __u32 number; /* 0: whatever they hold */
    __u32 first;
    __u32 end;
    __u32 reserved;
};

static __always_inline int is_of(__u64 key, __u32 number) { return (key & IDENTITY) >> 32 == number; }

static long forget_slot(__u64 offset, const struct forgetting *forgetting) {
    __u32 index = forgetting->first + offset;
    struct slot *slot = bpf_map_lookup_elem(&slots, &index);
    if (!slot || lock(&slot->lock))
        return 1;
    if (!forgetting->number || is_of(slot->key, forgetting->number))
        slot->key = 0;
    if (!forgetting->number || is_of(slot->shadow_key, forgetting->number))
        slot->shadow_key = 0;
    if (!forgetting->number)
        slot->count = 0;
    unlock(&slot->lock);
    return 0;
}

/* Returns how many slots it has looked at: fewer than there are, if a lock was not to be had. */
static __always_inline int forget_place(struct xdp_md *ctx) {
    struct forgetting *frame = (void *)(long)ctx->data;
    if ((void *)(frame + 1) > (void *)(long)ctx->data_end)
        return 0;
    struct forgetting forgetting = *frame;
    return bpf_loop(forgetting.end - forgetting.first, forget_slot, &forgetting, 0);
}

#endif
