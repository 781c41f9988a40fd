/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Addresses one copy of a broadcast on its way out; what went to one peer has its headers, and passes.
 *
 * A broadcast makes one copy for each child, and the copies for one port leave in a row. The kernel runs one
 * program for all frames queued to a port, so the program cannot be told the child; and several children may
 * be behind one port. So it counts: the n-th copy of a broadcast at a port is for the n-th child there. */
#ifndef WIRESUM_EGRESS_H
#define WIRESUM_EGRESS_H

#include "authentic.h"
#include "bits.h"
#include "frame.h"

/* Children behind a port that still wait for their copy of the broadcast that is leaving. */
struct cursor {
    __u64 waiting;
    __u32 serial;
};

/* The cursor of the port whose first child is c, for stream s: entry s × WIRESUM_MAX_CONTRIBUTORS + c. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, MAX_STREAMS *WIRESUM_MAX_CONTRIBUTORS);
    __type(key, __u32);
    __type(value, struct cursor);
} cursors SEC(".maps");

/* The child of `stream` that this copy is for, or a number too large if none is left. */
static __always_inline __u32 next_child(const struct broadcast *broadcast, __u32 stream, __u32 ifindex) {
    struct port port = {.stream = stream, .ifindex = ifindex};
    __u64 *behind = bpf_map_lookup_elem(&ports, &port);
    if (!behind || !*behind)
        return WIRESUM_MAX_CONTRIBUTORS;
    __u32 place = stream * WIRESUM_MAX_CONTRIBUTORS + lowest_bit(*behind);
    struct cursor *cursor = bpf_map_lookup_elem(&cursors, &place);
    if (!cursor)
        return WIRESUM_MAX_CONTRIBUTORS;
    if (cursor->serial != broadcast->serial) {
        cursor->serial = broadcast->serial;
        cursor->waiting = *behind;
    }
    if (!cursor->waiting)
        return WIRESUM_MAX_CONTRIBUTORS;
    __u32 child = lowest_bit(cursor->waiting);
    cursor->waiting &= cursor->waiting - 1;
    return child;
}

/* Whether the child has given what this copy carries. */
static __always_inline int has_given(const struct wiresum_header *header, __u8 child) {
    return (header->priority & WIRESUM_EXCHANGE_COPY) && header->expected == child;
}

#define HAS_GIVEN 1

/* Names the child in the result, unless it needs none; the check changes by as much. */
static __always_inline int name_child(struct xdp_md *ctx, __u32 frame_len, __u8 child) {
    struct wiresum_header *header = (void *)(long)ctx->data + frame_len;
    if ((void *)(header + 1) > (void *)(long)ctx->data_end)
        return -1;
    if (has_given(header, child))
        return HAS_GIVEN;
    __u32 change = ((__u32)child - header->contributor) << 24;
    header->contributor = child;
    put32(&header->check, get32(&header->check) + change);
    return 0;
}

/* Whether a packet is a copy that has no headers of its own yet. */
static __always_inline int is_copy(const struct broadcast *broadcast) {
    const __u16 *to = (const void *)broadcast->nobody;
    return !(to[0] | to[1] | to[2]);
}

static __always_inline int address_copy(struct xdp_md *ctx, __u32 ifindex) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct broadcast *broadcast = data;
    struct ethhdr *ethernet = data;
    if (data + V4_FRAME_LEN > end)
        return XDP_ABORTED;
    if (!is_copy(broadcast))
        return XDP_PASS;
    __u32 stream = broadcast->stream;
    if (stream >= MAX_STREAMS)
        return XDP_ABORTED;
    __u32 frame_len = ethernet->h_proto == bpf_htons(ETH_P_IP) ? V4_FRAME_LEN : V6_FRAME_LEN;
    __u32 child = next_child(broadcast, stream, ifindex);
    if (child >= WIRESUM_MAX_CONTRIBUTORS)
        return XDP_DROP;
    __u32 place = stream * WIRESUM_MAX_CONTRIBUTORS + child;
    struct peer *peer = bpf_map_lookup_elem(&children, &place);
    if (!peer || !peer->frame_len)
        return XDP_ABORTED;
    int named = name_child(ctx, frame_len, child);
    if (named == HAS_GIVEN)
        return XDP_DROP;
    if (named || prove_copy(ctx, frame_len, place) || address_to(ctx, peer, frame_len))
        return XDP_ABORTED;
    return XDP_PASS;
}

#endif
