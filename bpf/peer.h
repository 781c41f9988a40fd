/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whom packets are sent to, and how that is learnt. */
#ifndef WIRESUM_PEER_H
#define WIRESUM_PEER_H

#include "datagram.h"

/* A child, a substitute or a parent: where packets come from, and what goes before a packet to it. */
struct peer {
    struct endpoint source;
    __u64 job_key; /* the incarnation that it has joined; void in any other */
    /* Bitmaps of contributors, 0 for a parent: the child that it is or stands for; who makes up that child;
     * who must not be in for its values to be taken. */
    __u64 child;
    __u64 team;
    __u64 rivals;
    __u32 ifindex;
    __u16 frame_len;   /* V4_FRAME_LEN or V6_FRAME_LEN; 0: no such peer */
    __u16 address_sum; /* ones' complement sum over its IP header (v4) or pseudo header (v6), lengths left out
                        */
    __u8 frame[V6_FRAME_LEN]; /* Ethernet, IP and UDP headers; lengths and checksums are zero */
};

/* How a peer was heard: what a reply needs. */
struct hearing {
    struct endpoint local;
    __u32 ifindex;
    __u8 peer_mac[ETH_ALEN];
    __u8 local_mac[ETH_ALEN];
};

/* How the sender of a packet was heard; fails if it has no Ethernet header. */
static __always_inline int read_hearing(struct xdp_md *ctx, const struct packet *packet,
                                        struct hearing *hearing) {
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    if ((void *)(ethernet + 1) > packet->end)
        return -1;
    hearing->local = packet->local;
    hearing->local.any_address = hearing->local.reserved = 0;
    hearing->ifindex = ctx->ingress_ifindex;
    __builtin_memcpy(hearing->peer_mac, ethernet->h_source, ETH_ALEN);
    __builtin_memcpy(hearing->local_mac, ethernet->h_dest, ETH_ALEN);
    return 0;
}

#endif
