/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What needs judgement or a clock goes to the daemon, at a bounded rate. Of hellos and their like by those
 * who prove that the seat is theirs the program notes how to answer: strangers cannot fill its memory, nor
 * keep others from joining. Readies, rates and statuses pass the gate first, and are proven too. */
#ifndef WIRESUM_CONTROL_H
#define WIRESUM_CONTROL_H

#include "authentic.h"
#include "gate.h"
#include "lanes.h"

/* Whether a control packet of so many words has the proof of its seat. */
static __always_inline int is_proven(struct xdp_md *ctx, const struct arrival *arrival, int downward,
                                     __u32 words) {
    const struct packet *packet = &arrival->packet;
    const __u64 *key = find_key(arrival, downward), *promised = packet->payload;
    if (!key || (void *)(promised + 1) > packet->end)
        return 0;
    return proof_of(ctx, packet->frame_len, key[0], key[1], words) == get64(promised);
}

/* Whether a packet of joining is of someone who belongs to the job that it names. */
static __always_inline int is_of_member(struct xdp_md *ctx, struct arrival *arrival) {
    __u8 kind = arrival->packet.header->kind;
    int downward = kind == WIRESUM_KIND_WELCOME || kind == WIRESUM_KIND_REFUSAL;
    return names_stream(arrival) && is_proven(ctx, arrival, downward, WIRESUM_HELLO_WORDS);
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
    int is_member = is_of_member(ctx, arrival);
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

static __always_inline enum verdict pass_up(struct xdp_md *ctx, struct arrival *arrival, int downward,
                                            const __u32 words) {
    if (!is_of_ours(arrival, downward))
        return FOREIGN;
    if (!(downward ? comes_from_parent(arrival) : comes_from_child(arrival)))
        return BAD_CONTRIBUTOR;
    if (is_over_budget(CONTROL_BUDGET(arrival->job_index), WIRESUM_HEADER_LEN + arrival->packet.payload_len))
        return OVER_QUOTA;
    if (is_control_damaged(arrival, 4 * words))
        return DAMAGED;
    return is_proven(ctx, arrival, downward, words) ? CONTROL : BAD_CONTRIBUTOR;
}

#endif
