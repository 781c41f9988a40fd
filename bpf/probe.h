/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Answers a probe in place. */
#ifndef WIRESUM_PROBE_H
#define WIRESUM_PROBE_H

#include "control.h"

#define POSITIONS_PER_WORD 32

/* What a status says about the positions of one word. */
struct status_words {
    __u32 held;
    __u32 complete;
    __u32 final;
    __u32 state; /* of the first of them */
    __u64 contributors;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct status_words);
} scratch SEC(".maps");

/* What an entry holds at one moment. */
struct glimpse {
    __u64 contributors;
    __u64 job_key;
    __u32 position;
    __u32 state;
};

/* Fails if the entry stays locked. Global functions, this and the next, so that the verifier goes through
 * them once and not for each position and word. */
__attribute__((noinline)) int look_at(__u32 index, struct glimpse *glimpse) {
    struct entry *entry = bpf_map_lookup_elem(&entries, &index);
    if (!entry || !glimpse || lock(&entry->lock))
        return -1;
    glimpse->contributors = entry->contributors;
    glimpse->job_key = entry->job_key;
    glimpse->position = entry->position;
    glimpse->state = entry->state;
    unlock(&entry->lock);
    return 0;
}

static __always_inline int shows(const struct glimpse *glimpse, __u64 job_key, __u32 position) {
    return glimpse->state != WIRESUM_ENTRY_STATE_EMPTY && glimpse->job_key == job_key &&
           glimpse->position == position;
}

/* Fills the scratch words for 32 positions. */
__attribute__((noinline)) int describe(__u32 stream_index, __u64 job_key, __u32 first, __u64 held_by) {
    const struct stream *stream = pinned((void *)&directory.streams[stream_index % MAX_STREAMS]);
    struct glimpse glimpse = {};
    __u32 zero = 0;
    struct status_words *words = bpf_map_lookup_elem(&scratch, &zero);
    if (!words)
        return -1;
    __builtin_memset(words, 0, sizeof(*words));
    for (__u32 i = 0; i < POSITIONS_PER_WORD; i++) {
        __u32 index = stream->first_entry + ((first + i) & stream->entry_mask);
        if (look_at(index, &glimpse) || !shows(&glimpse, job_key, first + i))
            continue;
        words->held |= (__u32)((glimpse.contributors & held_by) != 0) << i;
        words->complete |= (__u32)(glimpse.state >= WIRESUM_ENTRY_STATE_FORWARDED) << i;
        words->final |= (__u32)(glimpse.state == WIRESUM_ENTRY_STATE_FINAL) << i;
        if (i == 0) {
            words->state = glimpse.state;
            words->contributors = glimpse.contributors;
        }
    }
    return 0;
}

/* Writes a word and returns it, for the check. */
static __always_inline __u32 put_word(__be32 *payload, __u32 index, __u32 value) {
    payload[index] = bpf_htonl(value);
    return value;
}

/* Replaces the probe's payload by the status; returns the sum of its words but for the proof. */
static __always_inline __u32 write_status(const struct arrival *arrival) {
    struct wiresum_header *header = arrival->packet.header;
    __be32 *payload = arrival->packet.payload;
    __u64 held_by = contributor_bit(arrival) | arrival->sender->child;
    __u32 first = get32(&header->fragment), zero = 0, sum;
    struct status_words *words = bpf_map_lookup_elem(&scratch, &zero);
    if (!words || (void *)(payload + WIRESUM_STATUS_WORDS) > arrival->packet.end)
        return 0;
    sum = bpf_ntohl(payload[WIRESUM_STATUS_ECHO_WORD]);
    for (__u32 i = WIRESUM_STATUS_ECHO_WORD + 1; i < WIRESUM_STATUS_HELD_WORD; i++)
        payload[i] = 0;
    for (__u32 word = 0; word < WIRESUM_BITMAP_WORDS; word++) {
        describe(arrival->stream_index, arrival->job_key, first + word * POSITIONS_PER_WORD, held_by);
        sum += put_word(payload, WIRESUM_STATUS_HELD_WORD + word, words->held);
        sum += put_word(payload, WIRESUM_STATUS_COMPLETE_WORD + word, words->complete);
        sum += put_word(payload, WIRESUM_STATUS_FINAL_WORD + word, words->final);
        if (word == 0) {
            sum += put_word(payload, WIRESUM_STATUS_STATE_WORD, words->state);
            sum += put_word(payload, WIRESUM_STATUS_CONTRIBUTORS_WORD, words->contributors >> 32);
            sum += put_word(payload, WIRESUM_STATUS_CONTRIBUTORS_WORD + 1, words->contributors);
        }
    }
    return sum;
}

/* Makes the packet a status, with its proof and check. */
static __always_inline void prove_status(struct xdp_md *ctx, const struct arrival *arrival, __u32 sum) {
    const struct packet *packet = &arrival->packet;
    const __u64 *key = find_key(arrival, 0);
    __be64 *promised = packet->payload;
    if (!key || (void *)(promised + 1) > packet->end)
        return;
    packet->header->kind = WIRESUM_KIND_STATUS;
    __u64 proof = proof_of(ctx, packet->frame_len, key[0], key[1], WIRESUM_STATUS_WORDS);
    put64(promised, proof);
    seal(packet->header, sum + (__u32)(proof >> 32) + (__u32)proof);
}

static __always_inline enum verdict answer_probe(struct xdp_md *ctx, struct arrival *arrival) {
    if (!is_of_ours(arrival, 0))
        return FOREIGN;
    if (!comes_from_child(arrival))
        return BAD_CONTRIBUTOR;
    if (exceeds_quota(arrival))
        return OVER_QUOTA;
    if (is_control_damaged(arrival, 4 * WIRESUM_STATUS_WORDS))
        return DAMAGED;
    if (!is_proven(ctx, arrival, 0, WIRESUM_STATUS_WORDS))
        return BAD_CONTRIBUTOR;
    prove_status(ctx, arrival, write_status(arrival));
    return PROBED;
}

#endif
