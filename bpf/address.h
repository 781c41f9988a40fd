/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Addressing a packet to one peer. */
#ifndef WIRESUM_ADDRESS_H
#define WIRESUM_ADDRESS_H

#include "peer.h"

static __always_inline __u16 fold_ones_complement(__u64 sum) {
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u64 sum_words(void *block) {
    __u64 sum = 0;
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4)
        sum += *(__u32 *)(block + at);
    return sum;
}

/* The sum of the proof behind the lanes, if there is one: they are whole blocks. */
static __always_inline __u64 sum_proof(void *payload, void *end) {
    __u32 len = end - payload;
    __u32 *proof = pinned(payload + (len & OFFSETS));
    return len % WIRESUM_BLOCK_LEN != WIRESUM_PROOF_LEN || (void *)(proof + 2) > end
               ? 0
               : (__u64)proof[0] + proof[1];
}

/* Ones' complement sum of the packet behind the UDP header, in memory order. Its lanes follow `headers_len`
 * bytes of headers. */
static __always_inline __u64 sum_datagram(void *header, void *end, __u32 headers_len) {
    __u64 sum = 0;
    if (header + headers_len > end)
        return 0;
#pragma unroll
    for (__u32 at = 0; at < headers_len; at += 2)
        sum += *(__u16 *)(header + at);
    void *payload = header + headers_len;
    __u16 zero = hidden_zero(header);
    for_each_block(lanes, at, payload, end, zero, WIRESUM_PAGE_PAYLOAD, 1, sum += sum_words(lanes));
    return sum + sum_proof(payload, end);
}

static __always_inline int write_ipv4(struct xdp_md *ctx, const struct peer *peer) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + V4_FRAME_LEN > end)
        return -1;
    struct iphdr *ip = data + sizeof(struct ethhdr);
    struct udphdr *udp = (void *)(ip + 1);
    __u16 udp_len = end - (void *)udp;
    __builtin_memcpy(data, peer->frame, V4_FRAME_LEN);
    ip->tot_len = bpf_htons(udp_len + sizeof(*ip));
    ip->check = ~fold_ones_complement((__u64)peer->address_sum + ip->tot_len);
    udp->len = bpf_htons(udp_len);
    return 0;
}

/* As IPv4, but here UDP's own checksum is obligatory. */
static __always_inline int write_ipv6(struct xdp_md *ctx, const struct peer *peer, __u32 headers_len) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + V6_FRAME_LEN > end)
        return -1;
    struct ipv6hdr *ip = data + sizeof(struct ethhdr);
    struct udphdr *udp = (void *)(ip + 1);
    __be16 udp_len = bpf_htons((__u16)(end - (void *)udp));
    __builtin_memcpy(data, peer->frame, V6_FRAME_LEN);
    ip->payload_len = udp_len;
    udp->len = udp_len;
    __u64 datagram_sum = sum_datagram(udp + 1, end, headers_len);
    __u16 sum = fold_ones_complement((__u64)peer->address_sum + udp_len + udp_len + datagram_sum);
    udp->check = sum == 0xffff ? sum : (__u16)~sum;
    return 0;
}

/* Puts headers for `peer` before a packet that has `headers_len` bytes of its own before its lanes;
 * `frame_len` is the length of those it has had. */
static __always_inline int address_as(struct xdp_md *ctx, const struct peer *peer, __u32 frame_len,
                                      __u32 headers_len) {
    __u16 needed = peer->frame_len;
    if (needed != frame_len && bpf_xdp_adjust_head(ctx, (int)frame_len - (int)needed))
        return -1;
    return needed == V4_FRAME_LEN ? write_ipv4(ctx, peer) : write_ipv6(ctx, peer, headers_len);
}

static __always_inline int address_to(struct xdp_md *ctx, const struct peer *peer, __u32 frame_len) {
    return address_as(ctx, peer, frame_len, WIRESUM_HEADER_LEN);
}

#endif
