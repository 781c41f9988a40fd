/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sending a copy of a packet to every child of a stream. */
#ifndef WIRESUM_FRAME_H
#define WIRESUM_FRAME_H

#include "address.h"
#include "packet.h"

/* What a broadcast tells the copies on their way out, in place of the Ethernet addresses that each of them
 * will get. */
struct broadcast {
    __u32 serial; /* of this CPU: tells one broadcast's copies from the next one's */
    __u32 stream;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} serials SEC(".maps");

/* Sends a copy of the packet to every admitted child of a stream; `address_copy` gives each its headers. */
static __always_inline int send_to_children(struct xdp_md *ctx, __u32 stream) {
    struct broadcast *broadcast = (void *)(long)ctx->data;
    __u32 zero = 0, *serial = bpf_map_lookup_elem(&serials, &zero);
    void *children_ports = bpf_map_lookup_elem(&broadcasts, &stream);
    if ((void *)(broadcast + 1) > (void *)(long)ctx->data_end || !serial || !children_ports)
        return XDP_ABORTED;
    broadcast->serial = ++*serial;
    broadcast->stream = stream;
    return bpf_redirect_map(children_ports, 0, BPF_F_BROADCAST);
}

#endif
