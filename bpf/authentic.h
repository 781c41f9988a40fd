/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Proofs behind values, where a job asks for them: a hash, NH, of the values (crates/keys/src/hash.rs), and
 * SipHash of it and the header. The hash takes a loop of its own before the values are added: so it costs
 * other jobs nothing, and what is forged has never been added. */
#ifndef WIRESUM_AUTHENTIC_H
#define WIRESUM_AUTHENTIC_H

#include "lanes.h"
#include "proof.h"
#include "verdict.h"

/* The key of the seat that a packet names, or 0. */
static __always_inline const __u64 *find_key(const struct arrival *arrival, int downward) {
    if (downward)
        return arrival->stream->parent_key;
    __u8 contributor = arrival->packet.header->contributor;
    if (contributor >= arrival->stream->seat_count || contributor >= WIRESUM_MAX_CONTRIBUTORS)
        return 0;
    __u32 place = arrival->stream_index * WIRESUM_MAX_CONTRIBUTORS + contributor;
    struct seat_key *key = bpf_map_lookup_elem(&seat_keys, &place);
    return key ? key->half : 0;
}

/* Adds the products of a block's words and the key's. */
static __always_inline void hash_block(__u64 *hash, const void *key, const void *block) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8) {
        __u32 first = *(const __u32 *)(block + at) + *(const __u32 *)(key + at);
        __u32 second = *(const __u32 *)(block + at + 4) + *(const __u32 *)(key + at + 4);
        accumulate(hash, (__u64)first * second);
    }
}

/* The hash of a packet's values under the key of its job. */
__attribute__((noinline)) __u64 hash_values(struct xdp_md *ctx, __u32 frame_len, __u32 job) {
    struct wiresum_header *header = (void *)(long)ctx->data + (frame_len & MAX_FRAME_LEN);
    void *payload = header + 1, *end = (void *)(long)ctx->data_end;
    const void *key = bpf_map_lookup_elem(&value_hashes, &job);
    if (payload > end || !key)
        return 0; /* never: so much has been read of it, and jobs have a number in bounds */
    __u64 hash = 0;
    for_each_block(lanes, at, payload, end, hidden_zero(header), config.max_payload, 4,
                   hash_block(&hash, key + at, lanes));
    return hash;
}

/* The place of the proof behind so many bytes of values, or 0 if the frame ends before. */
static __always_inline __u64 *find_proof(void *payload, __u32 payload_len, const void *end) {
    __u64 *proof = pinned(payload + (payload_len & OFFSETS));
    return (void *)(proof + 1) > end ? 0 : proof;
}

/* Whether values carry the proof of their seat, or none where none is asked for. */
static __always_inline int is_authentic(struct xdp_md *ctx, const struct arrival *arrival, int downward) {
    const struct packet *packet = &arrival->packet;
    int is_proven = packet->flags & WIRESUM_FLAG_PROVEN ? 1 : 0;
    if (is_proven != arrival->stream->is_proven)
        return 0;
    if (!is_proven)
        return 1;
    const __u64 *key = find_key(arrival, downward);
    const __u64 *proof = find_proof(packet->payload, packet->payload_len, packet->end);
    if (!key || !proof)
        return 0;
    __u64 hash = hash_values(ctx, packet->frame_len, arrival->job_index);
    return proof_of_values(ctx, packet->frame_len, key[0], key[1], hash) == get64(proof);
}

/* Puts the proof behind values whose header is complete. Those for all children get their hash, of which each
 * copy makes its own proof on its way out. */
static __always_inline void prove_values(struct xdp_md *ctx, const struct arrival *arrival,
                                         enum verdict verdict) {
    const struct packet *packet = &arrival->packet;
    if (!arrival->stream->is_proven)
        return;
    __u64 *proof = find_proof(packet->payload, packet->payload_len, packet->end);
    if (!proof)
        return;
    __u64 hash = hash_values(ctx, packet->frame_len, arrival->job_index);
    const __u64 *key = find_key(arrival, verdict == FORWARDED || verdict == REFORWARDED);
    if (verdict == COMPLETED)
        *proof = hash;
    else if (key)
        put64(proof, proof_of_values(ctx, packet->frame_len, key[0], key[1], hash));
}

/* Replaces the hash behind the values of a copy by the proof for the child at this place. */
static __always_inline int prove_copy(struct xdp_md *ctx, __u32 frame_len, __u32 place) {
    struct wiresum_header *header = (void *)(long)ctx->data + frame_len;
    void *end = (void *)(long)ctx->data_end;
    if ((void *)(header + 1) > end)
        return -1;
    __u16 flags = get16(&header->flags);
    if (!(flags & WIRESUM_FLAG_PROVEN))
        return 0;
    __u32 width = flags & WIRESUM_FLAG_LANES16 ? 2 : 4;
    __u64 *proof = find_proof(header + 1, get16(&header->value_count) * width, end);
    struct seat_key *key = bpf_map_lookup_elem(&seat_keys, &place);
    if (!proof || !key)
        return -1;
    put64(proof, proof_of_values(ctx, frame_len, key->half[0], key->half[1], *proof));
    return 0;
}

#endif
