/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whom packets are sent to. */
#ifndef WIRESUM_PEER_H
#define WIRESUM_PEER_H

#include "datagram.h"

/* A child, a substitute or a parent: where packets come from, and what goes before a packet to it. */
struct peer {
    struct endpoint source;
    __u32 ifindex;
    __u32 job_key; /* the incarnation that it has joined; void in any other */
    /* Bitmaps of contributors, 0 for a parent: the child that it is or stands for; who makes up that child;
     * who must not be in for its values to be taken. */
    __u64 child;
    __u64 team;
    __u64 rivals;
    __u16 frame_len;   /* V4_FRAME_LEN or V6_FRAME_LEN; 0: no such peer */
    __u16 address_sum; /* ones' complement sum over its IP header (v4) or pseudo header (v6), lengths left out
                        */
    __u8 frame[V6_FRAME_LEN]; /* Ethernet, IP and UDP headers; lengths and checksums are zero */
};

#endif
