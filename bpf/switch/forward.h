/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where a packet goes next: the tables of wiresum_switch::Forwarding, and the headers of the neighbours. */
#ifndef WIRESUM_SWITCH_FORWARD_H
#define WIRESUM_SWITCH_FORWARD_H

#include "../address.h"
#include "arrival.h"

/* Streams that are forwarded, summed here or not. */
#define MAX_FORWARDED 256
/* Ways up: at most one for each stream, address and worker. */
#define MAX_WAYS 16384
/* In place of a worker: anyone of whom nothing else is known. */
#define ANY_WORKER 0xffff

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_NEIGHBOURS);
    __type(key, __u32);
    __type(value, struct peer);
} neighbours SEC(".maps");

/* By neighbour: the way out to it. The kernel queues what leaves by an interface during a poll, and runs the
 * program of the first packet on all of them; so whatever is sent by a map has the same one, `send_copy`. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, MAX_NEIGHBOURS);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct bpf_devmap_val));
} outlets SEC(".maps");

struct way {
    __u16 job;
    __u16 sub_model;
    __u16 node; /* that the packet is addressed to */
    __u16 worker;
};

/* The neighbour that comes next. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_WAYS);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct way);
    __type(value, __u32);
} ups SEC(".maps");

struct stream_name {
    __u16 job;
    __u16 sub_model;
    __u16 cohort; /* that results are for */
    __u16 reserved;
};

/* The way down of a stream's results for a cohort. */
struct down {
    __u32 group;                      /* the broadcast group that reaches all of its neighbours */
    __u32 neighbour_count;            /* that workers are behind */
    __u64 behind[MAX_NEIGHBOURS];     /* which workers of it, by place in the list */
    __u32 neighbours[MAX_NEIGHBOURS]; /* the list */
    __u32 ifindices[MAX_NEIGHBOURS];  /* likewise */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_FORWARDED);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct stream_name);
    __type(value, struct down);
} downs SEC(".maps");

/* By group: the interfaces of a stream's neighbours. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries,
           MAX_FORWARDED + 1); /* the last is nobody's: replacing it waits for running programs */
    __uint(key_size, sizeof(__u32));
    __array(
        values, struct {
            __uint(type, BPF_MAP_TYPE_DEVMAP);
            __uint(max_entries, MAX_NEIGHBOURS);
            __uint(key_size, sizeof(__u32));
            __uint(value_size, sizeof(struct bpf_devmap_val));
        });
} groups SEC(".maps");

/* The header of a packet that may have been changed since it was parsed. */
static __always_inline struct wiresum_header *find_header(struct xdp_md *ctx, __u32 frame_len) {
    struct wiresum_header *header = (void *)(long)ctx->data + (frame_len & MAX_FRAME_LEN);
    return (void *)(switch_header(header) + 1) > (void *)(long)ctx->data_end ? 0 : header;
}

static __always_inline struct down *find_down(const struct wiresum_header *header) {
    struct stream_name name = {.job = get16(&header->job), .sub_model = get16(&header->sub_model)};
    name.cohort = header->contributor / WIRESUM_COHORT_WORKERS;
    return bpf_map_lookup_elem(&downs, &name);
}

/* Names the workers that a copy is for; the check changes by as much. */
static __always_inline void name_recipients(struct wiresum_header *header, __u64 recipients) {
    void *at = &switch_header(header)->contributors;
    __u32 before = get32(at) + get32(at + 4);
    put32(at, recipients >> 32);
    put32(at + 4, recipients);
    __u32 after = (__u32)(recipients >> 32) + (__u32)recipients;
    put32(&header->check, get32(&header->check) + after - before);
}

/* Puts headers for a neighbour before the packet. */
static __always_inline int address_neighbour(struct xdp_md *ctx, const struct peer *peer, __u32 frame_len) {
    return address_as(ctx, peer, frame_len, WIRESUM_HEADER_LEN + WIRESUM_SWITCH_HEADER_LEN);
}

/* Sends the packet to a neighbour; drops it if there is none. The verifier checks this and the next two once
 * each, as it does `carry_out`. */
__attribute__((noinline)) int send_to_neighbour(struct xdp_md *ctx, __u32 neighbour, __u32 frame_len) {
    struct peer *peer = bpf_map_lookup_elem(&neighbours, &neighbour);
    if (!peer || !peer->frame_len)
        return XDP_DROP;
    if (address_neighbour(ctx, peer, frame_len))
        return XDP_ABORTED;
    return peer->ifindex == ctx->ingress_ifindex ? XDP_TX : bpf_redirect_map(&outlets, neighbour, 0);
}

/* A packet of whose way nothing is known is dropped. As `carry_out`, this and the next are checked once each.
 */
__attribute__((noinline)) int send_up(struct xdp_md *ctx, __u32 frame_len) {
    const struct wiresum_header *header = find_header(ctx, frame_len);
    if (!header)
        return XDP_ABORTED;
    struct way way = {get16(&header->job), get16(&header->sub_model), get16(&header->node),
                      header->contributor};
    __u32 *next = bpf_map_lookup_elem(&ups, &way);
    if (!next) {
        way.worker = ANY_WORKER;
        next = bpf_map_lookup_elem(&ups, &way);
    }
    return next ? send_to_neighbour(ctx, *next, frame_len) : XDP_DROP;
}

/* Where there is but one neighbour below. */
static __always_inline int send_to_only_one(struct xdp_md *ctx, struct wiresum_header *header,
                                            const struct down *down, __u32 frame_len) {
    __u64 recipients = get_contributors(header) & down->behind[0];
    if (!recipients)
        return XDP_DROP;
    name_recipients(header, recipients);
    return send_to_neighbour(ctx, down->neighbours[0], frame_len);
}

/* Tells `send_copy` that a packet is not addressed yet: nobody's Ethernet address is zero. */
static __always_inline int mark_as_copy(struct xdp_md *ctx) {
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    if ((void *)(ethernet + 1) > (void *)(long)ctx->data_end)
        return -1;
    __builtin_memset(ethernet->h_dest, 0, ETH_ALEN);
    return 0;
}

static __always_inline int is_marked_as_copy(struct xdp_md *ctx) {
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    const __u16 *to = (const void *)ethernet->h_dest;
    return (void *)(ethernet + 1) <= (void *)(long)ctx->data_end && !(to[0] | to[1] | to[2]);
}

/* A copy to each neighbour of the stream; `send_copy` gives each its headers, and drops those for neighbours
 * that no recipient is behind. Results for a few are rare, so nobody counts the recipients first. */
__attribute__((noinline)) int send_down(struct xdp_md *ctx, __u32 frame_len) {
    struct wiresum_header *header = find_header(ctx, frame_len);
    struct down *down = header ? find_down(header) : 0;
    if (!down)
        return XDP_DROP;
    if (down->neighbour_count == 1)
        return send_to_only_one(ctx, header, down, frame_len);
    void *group = bpf_map_lookup_elem(&groups, &down->group);
    if (mark_as_copy(ctx))
        return XDP_ABORTED;
    return group ? bpf_redirect_map(group, 0, BPF_F_BROADCAST) : XDP_DROP;
}

/* The place in the list of the neighbour on an interface, or a number too large. */
static __always_inline __u32 place_at(const struct down *down, __u32 ifindex) {
    for (__u32 i = 0; i < MAX_NEIGHBOURS && i < down->neighbour_count; i++)
        if (down->ifindices[i] == ifindex)
            return i;
    return MAX_NEIGHBOURS;
}

/* Addresses one copy of a broadcast on its way out; drops it if none of its recipients is there. */
static __always_inline int address_copy(struct xdp_md *ctx, __u32 ifindex) {
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    if ((void *)(ethernet + 1) > (void *)(long)ctx->data_end)
        return XDP_DROP;
    __u32 frame_len = ethernet->h_proto == bpf_htons(ETH_P_IP) ? V4_FRAME_LEN : V6_FRAME_LEN;
    struct wiresum_header *header = find_header(ctx, frame_len);
    struct down *down = header ? find_down(header) : 0;
    __u32 place = down ? place_at(down, ifindex) : MAX_NEIGHBOURS;
    if (place >= MAX_NEIGHBOURS)
        return XDP_DROP;
    __u64 recipients = get_contributors(header) & down->behind[place];
    struct peer *peer = bpf_map_lookup_elem(&neighbours, &down->neighbours[place]);
    if (!recipients || !peer || !peer->frame_len)
        return XDP_DROP;
    name_recipients(header, recipients);
    return address_neighbour(ctx, peer, frame_len) ? XDP_ABORTED : XDP_PASS;
}

#endif
