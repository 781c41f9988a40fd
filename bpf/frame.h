/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sending a packet to one peer, or a copy of it to every child of a stream. */
#ifndef WIRESUM_FRAME_H
#define WIRESUM_FRAME_H

#include "address.h"
#include "packet.h"

/* What a broadcast tells the copies on their way out, in place of the Ethernet addresses that each of them
 * will get. */
struct broadcast {
    __u8 nobody[ETH_ALEN]; /* zero, as nobody's address is: the packet is not addressed yet */
    __u16 stream;
    __u32 serial; /* of this CPU: tells one broadcast's copies from the next one's */
};

/* Interfaces that peers may be behind. */
#define MAX_OUTLETS 256

/* By interface: the way out by it. The kernel queues what leaves by an interface during a poll, and runs the
 * program of the first packet on all of them; so whatever is sent by a map has the same one, `send_copy`. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
    __uint(max_entries, MAX_OUTLETS);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct bpf_devmap_val));
} outlets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} serials SEC(".maps");

/* Sends the packet to one peer. */
static __always_inline int send_to(struct xdp_md *ctx, const struct peer *peer, __u32 frame_len) {
    if (address_to(ctx, peer, frame_len))
        return XDP_ABORTED;
    return peer->ifindex == ctx->ingress_ifindex ? XDP_TX : bpf_redirect_map(&outlets, peer->ifindex, 0);
}

/* Sends a copy of the packet to every admitted child of a stream; `address_copy` gives each its headers. */
static __always_inline int send_to_children(struct xdp_md *ctx, __u32 stream) {
    struct broadcast *broadcast = (void *)(long)ctx->data;
    __u32 zero = 0, *serial = bpf_map_lookup_elem(&serials, &zero);
    void *children_ports = bpf_map_lookup_elem(&broadcasts, &stream);
    if ((void *)(broadcast + 1) > (void *)(long)ctx->data_end || !serial || !children_ports)
        return XDP_ABORTED;
    __builtin_memset(broadcast->nobody, 0, ETH_ALEN);
    broadcast->stream = stream;
    broadcast->serial = ++*serial;
    return bpf_redirect_map(children_ports, 0, BPF_F_BROADCAST);
}

#endif
