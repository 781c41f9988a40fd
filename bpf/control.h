/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What needs judgement or a clock goes to the daemon, at a bounded rate. Of hellos and their like by those
 * who prove that the seat is theirs the program notes how to answer: strangers cannot fill its memory, nor
 * keep others from joining. Readies, rates and statuses pass the gate first. */
#ifndef WIRESUM_CONTROL_H
#define WIRESUM_CONTROL_H

#include "gate.h"
#include "lanes.h"
#include "proof.h"

/* The key of the seat that a packet of joining is about, or 0. */
static __always_inline const __u64 *find_key(const struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    if (header->kind == WIRESUM_KIND_WELCOME || header->kind == WIRESUM_KIND_REFUSAL)
        return arrival->stream->parent_key;
    __u8 contributor = header->contributor;
    if (contributor >= arrival->stream->seat_count || contributor >= WIRESUM_MAX_CONTRIBUTORS)
        return 0;
    __u32 place = arrival->stream_index * WIRESUM_MAX_CONTRIBUTORS + contributor;
    struct seat_key *key = bpf_map_lookup_elem(&seat_keys, &place);
    return key ? key->half : 0;
}

/* Whether a packet of joining is of someone who belongs to the job that it names. */
static __always_inline int is_of_member(struct arrival *arrival) {
    const __u32 *words = arrival->packet.payload;
    if (!names_stream(arrival) || (void *)(words + WIRESUM_HELLO_WORDS) > arrival->packet.end)
        return 0;
    const __u64 *key = find_key(arrival);
    __u64 promised = (__u64)get32(words + WIRESUM_HELLO_PROOF_WORD) << 32;
    promised |= get32(words + WIRESUM_HELLO_PROOF_WORD + 1);
    return key && proof_of(key, arrival->packet.header, words) == promised;
}

/* Notes how to answer the sender. */
static __always_inline int note_hearing(struct xdp_md *ctx, const struct packet *packet) {
    struct endpoint source = packet->source;
    struct hearing hearing = {};
    if (read_hearing(ctx, packet, &hearing))
        return -1;
    source.any_address = source.reserved = 0;
    bpf_map_update_elem(&heard, &source, &hearing, BPF_ANY);
    return 0;
}

static __always_inline enum verdict hear(struct xdp_md *ctx, struct arrival *arrival) {
    int is_member = is_of_member(arrival);
    __u32 budget = is_member ? CONTROL_BUDGET(arrival->job_index) : STRANGERS_BUDGET;
    if (is_over_budget(budget, WIRESUM_HEADER_LEN + arrival->packet.payload_len))
        return OVER_QUOTA;
    if (is_member && note_hearing(ctx, &arrival->packet))
        return MALFORMED;
    return CONTROL;
}

/* Whether the check of a control packet fails; `most` is the length of its payload. */
static __always_inline int is_control_damaged(const struct arrival *arrival, const __u32 most) {
    const struct packet *packet = &arrival->packet;
    struct sums sums = {};
    for_each_block(lanes, at, packet->payload, packet->end, packet->zero, most, 1,
                   sum_block(&sums, lanes, 0));
    return fold_sums(&sums, 0) != promised_sum(arrival);
}

static __always_inline enum verdict pass_up(struct arrival *arrival, int downward, const __u32 words) {
    if (!is_of_ours(arrival, downward))
        return FOREIGN;
    if (!(downward ? comes_from_parent(arrival) : comes_from_child(arrival)))
        return BAD_CONTRIBUTOR;
    if (is_over_budget(CONTROL_BUDGET(arrival->job_index), WIRESUM_HEADER_LEN + arrival->packet.payload_len))
        return OVER_QUOTA;
    return is_control_damaged(arrival, 4 * words) ? DAMAGED : CONTROL;
}

#endif
