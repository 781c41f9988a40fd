// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Hands the packets that an aggregator in user space sums to its AF_XDP sockets. Everything else, our control
// packets and ill-formed ones among them, goes on to the kernel's stack, and so do packets of a queue that
// has no socket.
#include "packet.h"

/* By receive queue of the one interface that this program is attached to; the loader sets the size. */
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
} queue_sockets SEC(".maps");

static __always_inline int is_data(__u8 kind) { return carries_values(kind) || kind == WIRESUM_KIND_PROBE; }

SEC("xdp") int steer(struct xdp_md *ctx) {
    struct packet packet;
    if (parse(ctx, &packet) != WELL_FORMED || !is_data(packet.header->kind))
        return XDP_PASS;
    return bpf_redirect_map(&queue_sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
