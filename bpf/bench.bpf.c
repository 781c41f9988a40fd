// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The aggregator with what its tests and benchmarks need beside it.
#include "aggregator.bpf.c"

// BTF describes what a map or a variable names. These structs are in packets, so variables name them for the
// test that compares layouts with the mirrors in crates/xdp.
const struct check *const check_layout SEC(".rodata.layout");
const struct survey_frame *const survey_layout SEC(".rodata.layout");

// The kernel's test-run refuses devmap programs; this one addresses a copy as if it left through the port it
// came in by.
SEC("xdp") int test_copy(struct xdp_md *ctx) { return address_copy(ctx, ctx->ingress_ifindex); }

// A repeated test-run gives a program the same memory again and again, as it was left the time before. So the
// benchmark's program first turns that memory into the next packet of a job: to the next position, as a
// network card hands over what one sender has sent in a row, or the next contributor's to the same ones. It
// then does all that the aggregator does with a packet from the network. Its own share is measured by feeding
// alone, and is part of every figure. Each CPU has a feed of its own, which says which contributors' packets
// to which positions come in there.
struct feed {
    __u32 contributor;
    __u32 first_child;
    __u32 end_child;
    __u32 position;
    __u32 batch;      /* positions, a power of two, that one contributor sends before the next one does */
    __u32 skip;       /* positions of other CPUs that come after those of a batch */
    __u16 first_port; /* of contributor 0; the others follow */
    __u8 frame[V4_FRAME_LEN];
    __u8 header[WIRESUM_HEADER_LEN];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct feed);
} feeds SEC(".maps");

/* Makes a contribution again of what has become a result; its lanes stay what they are. */
static __always_inline void restore(void *frame, struct wiresum_header *header, const struct feed *feed) {
    __u32 lane_sum = get32(&header->check) - sum_header(header);
    __builtin_memcpy(frame, feed->frame, V4_FRAME_LEN);
    __builtin_memcpy(header, feed->header, WIRESUM_HEADER_LEN);
    seal(header, lane_sum);
}

static __always_inline void advance(struct feed *feed) {
    if (++feed->position & (feed->batch - 1))
        return;
    if (++feed->contributor < feed->end_child) {
        feed->position -= feed->batch;
        return;
    }
    feed->contributor = feed->first_child;
    feed->position += feed->skip;
}

static __always_inline int make_next_packet(struct xdp_md *ctx) {
    void *data = (void *)(long)ctx->data;
    struct udphdr *udp = data + V4_FRAME_LEN - sizeof(*udp);
    struct wiresum_header *header = data + V4_FRAME_LEN;
    __u32 zero = 0;
    struct feed *feed = bpf_map_lookup_elem(&feeds, &zero);
    if ((void *)(header + 1) > (void *)(long)ctx->data_end || !feed)
        return -1;
    if (header->kind != WIRESUM_KIND_CONTRIBUTION)
        restore(data, header, feed);
    advance(feed);
    /* The check is linear, so it changes by as much as the header's words do. */
    __u32 change = feed->position - get32(&header->fragment);
    change += (feed->contributor - header->contributor) << 24;
    udp->source = bpf_htons(feed->first_port + feed->contributor);
    /* The whole word: the aggregator reads it as one, which a narrower store before would delay. */
    put32(&header->contributor, (get32(&header->contributor) & 0xffffff) | feed->contributor << 24);
    put32(&header->fragment, feed->position);
    put32(&header->check, get32(&header->check) + change);
    return 0;
}

SEC("xdp") int feed_and_aggregate(struct xdp_md *ctx) {
    return make_next_packet(ctx) ? XDP_ABORTED : aggregate_packet(ctx);
}

SEC("xdp") int feed_alone(struct xdp_md *ctx) { return make_next_packet(ctx) ? XDP_ABORTED : XDP_DROP; }

/* Puts the proof of its child behind the values of the packet. */
static __always_inline int prove_next_packet(struct xdp_md *ctx) {
    struct wiresum_header *header = (void *)(long)ctx->data + V4_FRAME_LEN;
    void *end = (void *)(long)ctx->data_end;
    if ((void *)(header + 1) > end)
        return -1;
    __u64 *proof = find_proof(header + 1, 4 * get16(&header->value_count), end);
    __u32 stream = find_stream(STREAM_KEY(get16(&header->job), get16(&header->sub_model)));
    __u32 place = stream * WIRESUM_MAX_CONTRIBUTORS + header->contributor;
    struct seat_key *key = bpf_map_lookup_elem(&seat_keys, &place);
    if (!proof || !key)
        return -1;
    put64(proof,
          proof_of_values(ctx, V4_FRAME_LEN, key->half[0], key->half[1], hash_values(ctx, V4_FRAME_LEN, 0)));
    return 0;
}

SEC("xdp") int feed_proven_and_aggregate(struct xdp_md *ctx) {
    return make_next_packet(ctx) || prove_next_packet(ctx) ? XDP_ABORTED : aggregate_packet(ctx);
}

SEC("xdp") int feed_proven_alone(struct xdp_md *ctx) {
    return make_next_packet(ctx) || prove_next_packet(ctx) ? XDP_ABORTED : XDP_DROP;
}

static __always_inline void siphash_mix(struct siphash *state, __u64 word, const int rounds) {
    state->v3 ^= word;
#pragma unroll
    for (int i = 0; i < rounds; i++)
        siphash_round(state);
    state->v0 ^= word;
}

static __always_inline void siphash_block(struct siphash *state, const void *block, const int rounds) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
        siphash_mix(state, *(const __u64 *)(block + at), rounds);
}

/* What other codes over a packet cost: SipHash of all of it, with so many rounds for 8 bytes. */
static __always_inline __u64 siphash_packet(struct xdp_md *ctx, const int rounds) {
    struct wiresum_header *header = (void *)(long)ctx->data + V4_FRAME_LEN;
    void *payload = header + 1, *end = (void *)(long)ctx->data_end;
    if (payload > end)
        return 0;
    struct siphash state = siphash_begin(1, 2);
    const __u64 *fields = (const void *)header;
#pragma unroll
    for (unsigned int i = 0; i < PROVEN_FIELDS; i++)
        siphash_mix(&state, fields[i], rounds);
    for_each_block(lanes, at, payload, end, hidden_zero(header), config.max_payload, 1,
                   siphash_block(&state, lanes, rounds));
    siphash_mix(&state, (end - (void *)header) << 56, rounds);
    state.v2 ^= 0xff;
#pragma unroll
    for (int i = 0; i < rounds + 2; i++)
        siphash_round(&state);
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

/* The code that packets have: the hash of their values, and SipHash of it and the header. */
SEC("xdp") int prove_by_hash(struct xdp_md *ctx) {
    __u64 hash = hash_values(ctx, V4_FRAME_LEN, 0);
    return proof_of_values(ctx, V4_FRAME_LEN, 1, 2, hash) == 1 ? XDP_PASS : XDP_DROP;
}

SEC("xdp") int prove_by_siphash_2_4(struct xdp_md *ctx) {
    return siphash_packet(ctx, 2) == 1 ? XDP_PASS : XDP_DROP;
}

SEC("xdp") int prove_by_siphash_1_3(struct xdp_md *ctx) {
    return siphash_packet(ctx, 1) == 1 ? XDP_PASS : XDP_DROP;
}

SEC("xdp") int nothing(struct xdp_md *ctx __attribute__((unused))) { return XDP_DROP; }
