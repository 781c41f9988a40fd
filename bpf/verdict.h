/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is counted of a packet and done with it once its fate is known. */
#ifndef WIRESUM_VERDICT_H
#define WIRESUM_VERDICT_H

#include "frame.h"

/* What the rest of the program knows of a packet that has passed the gate so far. */
struct arrival {
    struct packet packet;
    const struct stream *stream;
    __u32 stream_index;
    __u32 job_index; /* or NO_JOB */
    __u32 job_key;
    struct peer *sender;
};

static __always_inline void count(const struct arrival *arrival, enum verdict verdict) {
    __u32 job = arrival->job_index;
    struct tally *tally = bpf_map_lookup_elem(&tallies, &job);
    if (!tally)
        return;
    tally->verdicts[verdict % VERDICT_RANGE]++;
    tally->bytes += arrival->packet.end - (void *)arrival->packet.header;
}

/* Counts the packet, and does with it what its verdict says. */
static __always_inline int conclude(struct xdp_md *ctx, const struct arrival *arrival, enum verdict verdict) {
    __u32 stream = arrival->stream_index;
    count(arrival, verdict);
    switch (verdict) {
    case CONTROL:
        return XDP_PASS;
    case COMPLETED:
    case RESULT_STORED:
        return send_to_children(ctx, stream);
    case FORWARDED:
    case REFORWARDED: {
        struct peer *parent = bpf_map_lookup_elem(&parents, &stream);
        return parent && parent->frame_len ? send_to(ctx, parent, arrival->packet.frame_len) : XDP_DROP;
    }
    case ANSWERED:
    case PROBED:
        return send_to(ctx, arrival->sender, arrival->packet.frame_len);
    default:
        return XDP_DROP;
    }
}

#endif
