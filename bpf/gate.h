/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who may speak to us: the first table of spec/aggregation.md, up to the check. */
#ifndef WIRESUM_GATE_H
#define WIRESUM_GATE_H

#include "maps.h"
#include "quota.h"
#include "verdict.h"

/* The index of a stream, or MAX_STREAMS. */
static __always_inline __u32 find_stream(__u64 key) {
    const __u64 *keys = pinned(directory.keys);
    for (__u32 i = 0; i < MAX_STREAMS && i < directory.stream_count; i++)
        if (keys[i] == key)
            return i;
    return MAX_STREAMS;
}

static __always_inline int is_admitted(const struct peer *peer, const struct arrival *arrival) {
    return peer->frame_len && peer->job_key == arrival->job_key &&
           same_endpoint(&peer->source, &arrival->packet.source);
}

/* Finds the stream that a packet names. */
static __always_inline int names_stream(struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    __u32 index = find_stream(STREAM_KEY(get16(&header->job), get16(&header->sub_model)));
    if (index == MAX_STREAMS)
        return 0;
    arrival->stream_index = hide(index, arrival->packet.zero) % MAX_STREAMS;
    arrival->stream = pinned((void *)&directory.streams[arrival->stream_index]);
    arrival->job_index = arrival->stream->job_index;
    return 1;
}

/* Whether values may carry a key: that of their position as it is now, or, around a renewal, the next one
 * or the last. */
static __always_inline int is_key_of_values(const struct stream *stream, __u32 position, __u64 key) {
    __u32 generation = position >> GENERATION_SHIFT;
    return key == stream->value_keys[0][generation] || key == stream->value_keys[1][generation] ||
           key == stream->value_keys[2][generation];
}

/* Whether the job of a packet runs; notes the key of its incarnation. */
static __always_inline int is_running(struct arrival *arrival) {
    __u32 job_index = arrival->job_index;
    struct job *job = bpf_map_lookup_elem(&jobs, &job_index);
    if (!job || !job->running)
        return 0;
    arrival->job_key = job->key;
    return 1;
}

/* Whether a packet is of the running incarnation of its job; values have the key of their positions. */
static __always_inline int is_of_incarnation(struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    if (!is_running(arrival))
        return 0;
    __u64 key = get64(&header->job_key);
    if (carries_values(header->kind))
        return is_key_of_values(arrival->stream, get32(&header->fragment), key);
    return key == arrival->job_key;
}

/* Whether a packet belongs to a running job and names this node; else it is FOREIGN. */
static __always_inline int is_of_ours(struct arrival *arrival, int downward) {
    const struct wiresum_header *header = arrival->packet.header;
    if (!names_stream(arrival) || !is_of_incarnation(arrival) || (downward && arrival->stream->is_root))
        return 0;
    __u16 node = downward ? arrival->stream->parent_node : arrival->stream->node;
    return get16(&header->node) == node &&
           (!carries_values(header->kind) || arrival->packet.payload_len <= arrival->stream->max_payload);
}

static __always_inline __u64 contributor_bit(const struct arrival *arrival) {
    return 1ULL << (arrival->packet.header->contributor % WIRESUM_MAX_CONTRIBUTORS);
}

static __always_inline int comes_from_child(struct arrival *arrival) {
    __u8 contributor = arrival->packet.header->contributor;
    if (contributor >= arrival->stream->seat_count || contributor >= WIRESUM_MAX_CONTRIBUTORS)
        return 0;
    __u32 place = arrival->stream_index * WIRESUM_MAX_CONTRIBUTORS + contributor;
    arrival->sender = bpf_map_lookup_elem(&children, &place);
    return arrival->sender && is_admitted(arrival->sender, arrival);
}

static __always_inline int comes_from_parent(struct arrival *arrival) {
    __u32 stream = arrival->stream_index;
    arrival->sender = bpf_map_lookup_elem(&parents, &stream);
    return arrival->sender && arrival->packet.header->contributor == arrival->stream->own_index &&
           is_admitted(arrival->sender, arrival);
}

/* Whether the job has used up its quota; children's packets alone count, as results answer them. */
static __always_inline int exceeds_quota(const struct arrival *arrival) {
    return is_over_budget(VALUES_BUDGET(arrival->job_index),
                          WIRESUM_HEADER_LEN + arrival->packet.payload_len + proof_len(&arrival->packet));
}

/* The sum of lanes that the packet's check promises. */
static __always_inline __u32 promised_sum(const struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    return get32(&header->check) - sum_header(header);
}

#endif
