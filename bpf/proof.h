/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Proofs of control packets: SipHash-2-4 over the header without its check and the words without the proof
 * (crates/keys/src/tag.rs). A few thousand times a second, so it may take its time. Those of values, which
 * most packets carry where a job asks for them, are over their hash in place of the words. */
#ifndef WIRESUM_PROOF_H
#define WIRESUM_PROOF_H

#include "packet.h"

/* What is proven, in numbers of 8 bytes: the header's fields, the flags, what the payload says. */
#define PROVEN_FIELDS (offsetof(struct wiresum_header, flags) / 8)
/* Those of the longest control packet, its proof among them. */
#define MAX_CONTROL_NUMBERS (WIRESUM_STATUS_WORDS / 2)
_Static_assert(offsetof(struct wiresum_header, flags) % 8 == 0 && !WIRESUM_HELLO_PROOF_WORD,
               "the proof comes first, and what it is about is a whole number of words");

struct siphash {
    __u64 v0, v1, v2, v3;
};

#define ROTATED(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

static __always_inline void siphash_round(struct siphash *state) {
    state->v0 += state->v1;
    state->v2 += state->v3;
    state->v1 = ROTATED(state->v1, 13) ^ state->v0;
    state->v3 = ROTATED(state->v3, 16) ^ state->v2;
    state->v0 = ROTATED(state->v0, 32);
    state->v2 += state->v1;
    state->v0 += state->v3;
    state->v1 = ROTATED(state->v1, 17) ^ state->v2;
    state->v3 = ROTATED(state->v3, 21) ^ state->v0;
    state->v2 = ROTATED(state->v2, 32);
}

static __always_inline void siphash_add(struct siphash *state, __u64 word) {
    state->v3 ^= word;
    siphash_round(state);
    siphash_round(state);
    state->v0 ^= word;
}

static __always_inline struct siphash siphash_begin(__u64 low, __u64 high) {
    struct siphash state = {low ^ 0x736f6d6570736575ULL, high ^ 0x646f72616e646f6dULL,
                            low ^ 0x6c7967656e657261ULL, high ^ 0x7465646279746573ULL};
    return state;
}

static __always_inline __u64 siphash_end(struct siphash *state, __u64 len) {
    siphash_add(state, len << 56);
    state->v2 ^= 0xff;
#pragma unroll
    for (unsigned int i = 0; i < 4; i++)
        siphash_round(state);
    return state->v0 ^ state->v1 ^ state->v2 ^ state->v3;
}

/* What all proofs begin with: the header's fields, and its flags. */
static __always_inline struct siphash begin_proof(const struct wiresum_header *header, __u64 low,
                                                  __u64 high) {
    const __u64 *fields = (const void *)header;
    struct siphash state = siphash_begin(low, high);
#pragma unroll
    for (unsigned int i = 0; i < PROVEN_FIELDS; i++)
        siphash_add(&state, fields[i]);
    siphash_add(&state, (__u64)header->flags << 48);
    return state;
}

/* The proof that the holder of a key puts into a control packet of so many words; `low` and `high` are the
 * key. A global function, so that the verifier goes through its loop once. */
__attribute__((noinline)) __u64 proof_of(struct xdp_md *ctx, __u32 frame_len, __u64 low, __u64 high,
                                         __u32 words) {
    struct wiresum_header *header = (void *)(long)ctx->data + (frame_len & MAX_FRAME_LEN);
    const __u64 *said = (const void *)(header + 1);
    const void *end = (void *)(long)ctx->data_end;
    if ((void *)said > end)
        return 0; /* never: so much has been read of it */
    struct siphash state = begin_proof(header, low, high);
    for (__u32 i = 1; i < MAX_CONTROL_NUMBERS && i < words / 2; i++) {
        const __u64 *number = pinned((void *)(said + i));
        if ((void *)(number + 1) > end)
            break; /* never: its length is right by now */
        siphash_add(&state, *number);
    }
    return siphash_end(&state, 8 * (PROVEN_FIELDS + words / 2));
}

/* The proof of values, whose hash this is. */
__attribute__((noinline)) __u64 proof_of_values(struct xdp_md *ctx, __u32 frame_len, __u64 low, __u64 high,
                                                __u64 hash) {
    struct wiresum_header *header = (void *)(long)ctx->data + (frame_len & MAX_FRAME_LEN);
    if ((void *)(header + 1) > (void *)(long)ctx->data_end)
        return 0; /* never: so much has been read of it */
    struct siphash state = begin_proof(header, low, high);
    siphash_add(&state, bpf_cpu_to_be64(hash));
    return siphash_end(&state, 8 * (PROVEN_FIELDS + 2));
}

#endif
