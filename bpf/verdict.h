/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is counted of a packet and done with it once its fate is known. */
#ifndef WIRESUM_VERDICT_H
#define WIRESUM_VERDICT_H

#include "frame.h"

/* What the rest of the program knows of a packet that has passed the gate so far. */
struct arrival {
    struct packet packet;
    const struct stream *stream;
    __u64 job_key;
    __u32 stream_index;
    __u32 job_index; /* or NO_JOB */
    __u32 taker;     /* of a result, one more than the only child that takes it; 0: all do */
    struct peer *sender;
};

/* Nothing is known yet of a packet that has come. */
static __always_inline void begin_arrival(struct arrival *arrival) {
    arrival->stream_index = 0;
    arrival->job_index = NO_JOB;
    arrival->taker = 0;
    arrival->sender = 0;
}

static __always_inline void count(const struct arrival *arrival, enum verdict verdict) {
    __u32 job = arrival->job_index;
    struct tally *tally = bpf_map_lookup_elem(&tallies, &job);
    if (!tally)
        return;
    tally->verdicts[verdict % VERDICT_RANGE]++;
    tally->bytes += arrival->packet.end - (void *)arrival->packet.header;
}

/* Sends a result to the only child that takes it, if that is known. */
static __always_inline int send_to_taker(struct xdp_md *ctx, const struct arrival *arrival) {
    __u32 place =
        arrival->stream_index * WIRESUM_MAX_CONTRIBUTORS + (arrival->taker - 1) % WIRESUM_MAX_CONTRIBUTORS;
    struct peer *peer = bpf_map_lookup_elem(&children, &place);
    if (!peer || !peer->frame_len || peer->job_key != arrival->job_key ||
        arrival->taker > WIRESUM_MAX_CONTRIBUTORS)
        return XDP_DROP;
    return send_to(ctx, peer, arrival->packet.frame_len);
}

/* Counts the packet, and does with it what its verdict says. */
static __always_inline int conclude(struct xdp_md *ctx, const struct arrival *arrival, enum verdict verdict) {
    __u32 stream = arrival->stream_index;
    count(arrival, verdict);
    switch (verdict) {
    case CONTROL:
        return XDP_PASS;
    case COMPLETED:
        return arrival->taker ? send_to_taker(ctx, arrival) : send_to_children(ctx, stream);
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
