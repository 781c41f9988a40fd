/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is done with a packet's values and its entry's, but for the adding itself.
 *
 * The verifier goes through a global function once, for any arguments, and not again for each way that leads
 * to it. A call takes a few nanoseconds, so what most packets need stays inline: see apply() in
 * contribution.h. */
#ifndef WIRESUM_DEPOSIT_H
#define WIRESUM_DEPOSIT_H

#include "lanes.h"
#include "verdict.h"

/* A packet's lanes and the entry's that they belong to. */
struct lanes {
    void *total;   /* the entry's */
    void *payload; /* the packet's */
    void *end;     /* of the packet */
    __u16 zero;    /* see hidden_zero */
    __u16 format;
};

/* Finds the lanes of a packet that has passed the gate, and those of the entry `index`. */
static __always_inline int find_lanes(struct xdp_md *ctx, __u32 index, __u32 frame_len, struct lanes *lanes) {
    struct wiresum_header *header = (void *)(long)ctx->data + (frame_len & MAX_FRAME_LEN);
    lanes->end = (void *)(long)ctx->data_end;
    lanes->payload = header + 1;
    lanes->total = bpf_map_lookup_elem(&values, &index);
    if (lanes->payload > lanes->end || !lanes->total)
        return -1;
    lanes->zero = hidden_zero(header);
    lanes->format = get16(&header->flags) & WIRESUM_FLAG_FORMAT;
    return 0;
}

static __always_inline __u32 combine(const struct lanes *lanes, enum combine how) {
    return combine_payload(lanes->total, lanes->payload, lanes->end, lanes->zero, lanes->format, how);
}

static __always_inline __u32 sum(const struct lanes *lanes) {
    return sum_payload(lanes->payload, lanes->end, lanes->zero, lanes->format);
}

static __always_inline void take(const struct lanes *lanes) {
    take_payload(lanes->total, lanes->payload, lanes->end, lanes->zero);
}

/* Takes back what should not have been added. */
__attribute__((noinline)) __u32 take_back(struct xdp_md *ctx, __u32 index, __u32 frame_len) {
    struct lanes lanes;
    return find_lanes(ctx, index, frame_len, &lanes) ? 0 : combine(&lanes, SUBTRACT);
}

/* Keeps the larger lanes in the entry, and returns their sum. */
__attribute__((noinline)) __u32 maximize(struct xdp_md *ctx, __u32 index, __u32 frame_len) {
    struct lanes lanes;
    return find_lanes(ctx, index, frame_len, &lanes) ? 0 : combine(&lanes, MAXIMIZE);
}

/* Whether the packet's lanes sum up to what its check promises. If so, and asked to, puts them in the entry's
 * place. */
__attribute__((noinline)) int verify(struct xdp_md *ctx, __u32 index, __u32 frame_len, __u32 promised,
                                     int takes) {
    struct lanes lanes;
    if (find_lanes(ctx, index, frame_len, &lanes) || sum(&lanes) != promised)
        return 0;
    if (takes)
        take(&lanes);
    return 1;
}

#endif
