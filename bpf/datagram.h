/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a frame to the UDP datagram in it, with early exits, and what all programs need to read it. */
#ifndef WIRESUM_DATAGRAM_H
#define WIRESUM_DATAGRAM_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Inlined functions go without debug information: with it, which says for each unrolled step where its
 * variables are, the compiler takes 1.7 times as long, and the object is four times as large. Types, of which
 * maps are made, and the lines of the programs themselves stay. */
#undef __always_inline
#define __always_inline inline __attribute__((always_inline, nodebug))

#include "wiresum_wire.h"

/* Addresses on which the nodes of one program listen. */
#define MAX_ENDPOINTS 4
#define V4_FRAME_LEN (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define V6_FRAME_LEN (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/* One side of a UDP flow; IPv4 addresses are mapped into IPv6. */
struct endpoint {
    __u64 address[2]; /* in network order */
    __be16 port;
    __u16 any_address; /* in the configuration: whatever the packet's destination address */
    __u32 reserved;
};

/* Bits of iphdr.frag_off that mark a fragment: "more fragments" and the offset. */
#define FRAGMENT_BITS 0x3fff
#define IPV4_WITHOUT_OPTIONS 0x45
/* At least V6_FRAME_LEN, as a mask. */
#define MAX_FRAME_LEN 0x3f

/* Keeps the compiler from computing the same pointer twice: the verifier would check one of them and use the
 * other. */
static __always_inline void *pinned(void *pointer) {
    asm volatile("" : "+r"(pointer));
    return pointer;
}

/* Does `body` for each block of a payload, which ends where the frame ends and is at most `most` bytes long:
 * `unrolled` blocks for each comparison with the end, then the rest. The body knows the block as `lanes`, and
 * its offset as `at`. The offset is hidden from the verifier (see hidden_zero): so all ways out of a loop
 * look the same to it, and it follows only one. */
#define OFFSETS 0xfe0
#define MAX_BLOCKS (WIRESUM_PAGE_PAYLOAD / WIRESUM_BLOCK_LEN)
#define for_each_block(lanes, at, payload, end, zero, most, unrolled, body)                                  \
    do {                                                                                                     \
        const __u32 stride_len = (unrolled) * WIRESUM_BLOCK_LEN;                                             \
        __u32 next = (zero) & OFFSETS;                                                                       \
        for (__u32 stride = 0; stride < MAX_BLOCKS / (unrolled) && next <= (most) - stride_len; stride++) {  \
            void *const blocks = pinned((payload) + next);                                                   \
            if (blocks + stride_len > (end))                                                                 \
                break;                                                                                       \
            _Pragma("unroll") for (__u32 block = 0; block < (unrolled); block++) {                           \
                const __u32 at __attribute__((unused)) = next + block * WIRESUM_BLOCK_LEN;                   \
                void *const lanes = blocks + block * WIRESUM_BLOCK_LEN;                                      \
                body;                                                                                        \
            }                                                                                                \
            next = (next + stride_len) & OFFSETS;                                                            \
        }                                                                                                    \
        for (__u32 rest = 1; rest < (unrolled) && next <= (most) - WIRESUM_BLOCK_LEN; rest++) {              \
            const __u32 at __attribute__((unused)) = next;                                                   \
            void *const lanes = pinned((payload) + next);                                                    \
            if (lanes + WIRESUM_BLOCK_LEN > (end))                                                           \
                break;                                                                                       \
            body;                                                                                            \
            next = (next + WIRESUM_BLOCK_LEN) & OFFSETS;                                                     \
        }                                                                                                    \
    } while (0)

_Static_assert(OFFSETS + WIRESUM_BLOCK_LEN > WIRESUM_PAGE_PAYLOAD, "every block has an offset");

enum parsed { NOT_OURS, ILL_FORMED, WELL_FORMED, NOTE };

struct packet {
    struct wiresum_header *header;
    void *payload;
    void *end; /* of the frame; the payload lies before it */
    struct endpoint source;
    struct endpoint local;
    __u32 frame_len; /* V4_FRAME_LEN or V6_FRAME_LEN */
    __u32 datagram_len;
    __u32 payload_len;
    __u16 flags;
    __u16 zero; /* see hidden_zero */
};

/* Big-endian fields of a packed header. The cast spares the loads byte by byte that packing brings. */
static __always_inline __u16 get16(const void *at) { return bpf_ntohs(*(const volatile __be16 *)at); }
static __always_inline __u32 get32(const void *at) { return bpf_ntohl(*(const __be32 *)at); }
static __always_inline __u64 get64(const void *at) { return bpf_be64_to_cpu(*(const __be64 *)at); }
static __always_inline void put16(void *at, __u16 value) { *(__be16 *)at = bpf_htons(value); }
static __always_inline void put32(void *at, __u32 value) { *(__be32 *)at = bpf_htonl(value); }
static __always_inline void put64(void *at, __u64 value) { *(__be64 *)at = bpf_cpu_to_be64(value); }

static __always_inline int same_address(const struct endpoint *a, const struct endpoint *b) {
    return a->address[1] == b->address[1] && a->address[0] == b->address[0];
}

static __always_inline int same_endpoint(const struct endpoint *a, const struct endpoint *b) {
    return a->port == b->port && same_address(a, b);
}

/* Whether one of these `count` endpoints is that of a packet to `local`. */
static __always_inline int is_listening(const struct endpoint *endpoints, __u32 count,
                                        const struct endpoint *local) {
    endpoints = pinned((void *)endpoints);
    for (__u32 i = 0; i < MAX_ENDPOINTS && i < count; i++) {
        if (local->port == endpoints[i].port &&
            (endpoints[i].any_address || same_address(local, &endpoints[i])))
            return 1;
    }
    return 0;
}

static __always_inline void map_ipv4(__u64 *mapped, __be32 address) {
    mapped[0] = 0;
    mapped[1] = bpf_cpu_to_be64(0xffff00000000ULL | bpf_ntohl(address));
}

static __always_inline int read_ipv4(const struct iphdr *ip, struct packet *packet) {
    if (*(const __u8 *)ip != IPV4_WITHOUT_OPTIONS || ip->protocol != IPPROTO_UDP ||
        (ip->frag_off & bpf_htons(FRAGMENT_BITS)))
        return 0;
    map_ipv4(packet->source.address, ip->saddr);
    map_ipv4(packet->local.address, ip->daddr);
    return 1;
}

static __always_inline void read_address(__u64 *to, const struct in6_addr *address) {
    to[0] = ((const __u64 *)address)[0];
    to[1] = ((const __u64 *)address)[1];
}

static __always_inline int read_ipv6(const struct ipv6hdr *ip, struct packet *packet) {
    if (*(const __u8 *)ip >> 4 != 6 || ip->nexthdr != IPPROTO_UDP)
        return 0;
    read_address(packet->source.address, &ip->saddr);
    read_address(packet->local.address, &ip->daddr);
    return 1;
}

/* The UDP header of an unfragmented datagram without options, or NULL; what it follows is left to the kernel.
 */
static __always_inline struct udphdr *find_udp(struct xdp_md *ctx, struct packet *packet) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *ethernet = data;
    void *ip = ethernet + 1;
    packet->end = end;
    if (data + V4_FRAME_LEN > end)
        return 0;
    if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
        if (!read_ipv4(ip, packet))
            return 0;
    } else if (ethernet->h_proto != bpf_htons(ETH_P_IPV6) || data + V6_FRAME_LEN > end ||
               !read_ipv6(ip, packet)) {
        return 0;
    }
    /* From the version as a number, not as two cases, or the verifier would go twice through all that
     * follows. */
    __u32 version = *(const volatile __u8 *)ip >> 4;
    packet->frame_len = V4_FRAME_LEN + (version - 4) * (V6_FRAME_LEN - V4_FRAME_LEN) / 2;
    struct udphdr *udp = pinned(data + ((packet->frame_len - sizeof(*udp)) & MAX_FRAME_LEN));
    return (void *)(udp + 1) > end ? 0 : udp;
}

/* Zero, as the magic is right by now; but the verifier takes it for a number that it does not know. What is
 * added to it, the verifier forgets: it then goes once through what follows a branch or a loop, not once for
 * each way that leads there. */
static __always_inline __u16 hidden_zero(const struct wiresum_header *header) {
    return get16(&header->magic) ^ WIRESUM_MAGIC;
}

/* Fills what can be known of a packet before its header is read, unless the frame is for none of these
 * `count` endpoints. Its values follow `headers_len` bytes of headers. */
static __always_inline enum parsed find_packet(struct xdp_md *ctx, const struct endpoint *endpoints,
                                               __u32 count, __u32 headers_len, struct packet *packet) {
    struct udphdr *udp = find_udp(ctx, packet);
    if (!udp)
        return NOT_OURS;
    packet->source.port = udp->source;
    packet->local.port = udp->dest;
    if (!is_listening(endpoints, count, &packet->local))
        return NOT_OURS;
    packet->header = (void *)(udp + 1);
    packet->payload = (void *)packet->header + headers_len;
    packet->datagram_len = bpf_ntohs(udp->len) - sizeof(*udp);
    return packet->payload > packet->end ? ILL_FORMED : WELL_FORMED;
}

static __always_inline int is_of_this_version(const struct wiresum_header *header) {
    return get16(&header->magic) == WIRESUM_MAGIC && header->version == WIRESUM_VERSION;
}

/* Whether the values, whose length is known by now, and so many bytes behind them end where datagram and
 * frame do: the least packet is longer than Ethernet's least frame, so nothing may follow it. */
static __always_inline int is_all_of_frame(const struct packet *packet, __u32 proof_len) {
    __u32 len = packet->payload_len + proof_len;
    void *packet_end = packet->payload + len;
    __u32 headers_len = packet->payload - (void *)packet->header;
    return packet->datagram_len == headers_len + len && packet_end <= packet->end &&
           packet_end >= packet->end;
}

static __always_inline __u32 hide(__u32 value, __u16 zero) { return value + zero; }

/* Whole words before the flags. */
#define HEADER_WORDS (offsetof(struct wiresum_header, flags) / 4)

/* The header's share of the check. */
static __always_inline __u32 sum_header(const struct wiresum_header *header) {
    __u32 sum = get16(&header->flags);
#pragma unroll
    for (unsigned int i = 0; i < HEADER_WORDS; i++)
        sum += get32((const void *)header + 4 * i);
    return sum;
}

static __always_inline void seal(struct wiresum_header *header, __u32 lane_sum) {
    put32(&header->check, sum_header(header) + lane_sum);
}

#endif
