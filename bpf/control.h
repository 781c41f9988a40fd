/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Hellos and their like need judgement and go to the daemon; the program only notes how to answer. */
#ifndef WIRESUM_CONTROL_H
#define WIRESUM_CONTROL_H

#include "gate.h"

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

#endif
