/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What needs judgement or a clock goes to the daemon: of hellos and their like the program only notes how to
 * answer; readies and rates pass the gate first. */
#ifndef WIRESUM_CONTROL_H
#define WIRESUM_CONTROL_H

#include "contribution.h"

static __always_inline enum verdict hear(struct xdp_md *ctx, const struct packet *packet) {
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    struct endpoint source = packet->source;
    struct hearing hearing = {.local = packet->local, .ifindex = ctx->ingress_ifindex};
    if ((void *)(ethernet + 1) > packet->end)
        return MALFORMED;
    source.any_address = source.reserved = 0;
    hearing.local.any_address = hearing.local.reserved = 0;
    __builtin_memcpy(hearing.peer_mac, ethernet->h_source, ETH_ALEN);
    __builtin_memcpy(hearing.local_mac, ethernet->h_dest, ETH_ALEN);
    bpf_map_update_elem(&heard, &source, &hearing, BPF_ANY);
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

static __always_inline enum verdict pass_up(struct arrival *arrival, int downward) {
    if (!is_of_ours(arrival, downward))
        return FOREIGN;
    if (!(downward ? comes_from_parent(arrival) : comes_from_child(arrival)))
        return BAD_CONTRIBUTOR;
    return is_control_damaged(arrival, 4 * WIRESUM_READY_WORDS) ? DAMAGED : CONTROL;
}

_Static_assert(WIRESUM_READY_WORDS == WIRESUM_RATE_WORDS, "one length serves both");

#endif
