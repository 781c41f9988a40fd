// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The switch with what its tests and benchmark need beside it.
#include "program.bpf.c"

// The kernel's test-run refuses devmap programs; this one addresses a copy as if it left through this
// interface.
__u32 copy_ifindex SEC(".data.copy_test");

SEC("xdp") int test_copy(struct xdp_md *ctx) { return address_copy(ctx, copy_ifindex); }

// A repeated test-run gives a program the same memory
// again and again, as it was left the time before; so this one first turns that memory into the next worker's
// packet to the same position, or the first worker's to the next one.

struct feed {
    __u32 worker; /* of the packet before */
    __u32 workers;
    __u32 position;
    __u32 slot_mask;
    __u8 header[WIRESUM_HEADER_LEN + WIRESUM_SWITCH_HEADER_LEN];
    __u8 reserved[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct feed);
} feeds SEC(".maps");

/* Makes a contribution again of what has left with the sum; its lanes stay what they are. */
static __always_inline void restore(struct wiresum_header *header, const struct feed *feed) {
    __u32 lane_sum = get32(&header->check) - sum_headers(header);
    __builtin_memcpy(header, feed->header, sizeof(feed->header));
    put32(&header->check, sum_headers(header) + lane_sum);
}

/* Writes a word, and changes the check by as much, as it is linear. */
static __always_inline void change_word(struct wiresum_header *header, void *word, __u32 value) {
    put32(&header->check, get32(&header->check) + value - get32(word));
    put32(word, value);
}

static __always_inline int make_next_packet(struct xdp_md *ctx) {
    struct wiresum_header *header = (void *)(long)ctx->data + V4_FRAME_LEN;
    void *contributors = &switch_header(header)->contributors;
    __u32 zero = 0;
    struct feed *feed = bpf_map_lookup_elem(&feeds, &zero);
    if ((void *)(switch_header(header) + 1) > (void *)(long)ctx->data_end || !feed)
        return -1;
    if (++feed->worker >= feed->workers) {
        restore(header, feed);
        feed->worker = 0;
        feed->position++;
    }
    __u64 bit = 1ULL << (feed->worker % WIRESUM_MAX_CONTRIBUTORS);
    change_word(header, &header->fragment, feed->position);
    /* The whole word: the program reads it as one, which a narrower store before would delay. */
    change_word(header, &header->contributor, (get32(&header->contributor) & 0xffffff) | feed->worker << 24);
    change_word(header, contributors, bit >> 32);
    change_word(header, contributors + 4, bit);
    change_word(header, &switch_header(header)->slot, feed->position & feed->slot_mask);
    return 0;
}

SEC("xdp") int feed_and_judge(struct xdp_md *ctx) {
    return make_next_packet(ctx) ? XDP_ABORTED : judge_packet(ctx);
}

/* As `forward_packet`, but for the sending: admission, counts by job, and its budget. */
SEC("xdp") int feed_and_admit(struct xdp_md *ctx) {
    struct arrival arrival = {};
    __u32 job = NO_JOB;
    if (make_next_packet(ctx) || parse(ctx, &arrival.packet) != WELL_FORMED ||
        is_refused(&arrival.packet, &job))
        return XDP_ABORTED;
    __u32 len = datagram_len(&arrival.packet);
    struct fate fate = handle(ctx, &arrival);
    count(job, fate.verdict, len);
    return fate.egress << 8 | fate.verdict;
}

SEC("xdp") int feed_alone(struct xdp_md *ctx) { return make_next_packet(ctx) ? XDP_ABORTED : XDP_DROP; }
