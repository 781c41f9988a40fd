/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Proofs of packets of joining: SipHash-2-4 over the header without its check and the words without the proof
 * (crates/keys/src/tag.rs). A few times a second, so it may take its time. */
#ifndef WIRESUM_PROOF_H
#define WIRESUM_PROOF_H

#include "packet.h"

/* Words of 8 bytes: the header's fields and flags, then what the payload says. */
#define PROVEN_FIELDS (offsetof(struct wiresum_header, flags) / 4)
#define PROVEN_WORDS ((PROVEN_FIELDS + 1 + WIRESUM_HELLO_WORDS - 2) / 2)
_Static_assert(PROVEN_FIELDS % 2 == 1 && WIRESUM_HELLO_WORDS % 2 == 0 && !WIRESUM_HELLO_PROOF_WORD,
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

static __always_inline struct siphash siphash_begin(const __u64 *key) {
    struct siphash state = {key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL,
                            key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
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

/* The proof that the holder of a key puts into this packet. `words` are those of its payload. */
static __always_inline __u64 proof_of(const __u64 *key, const struct wiresum_header *header,
                                      const __u32 *words) {
    __u32 proven[2 * PROVEN_WORDS];
    const __u32 *fields = (const void *)header;
#pragma unroll
    for (unsigned int i = 0; i < PROVEN_FIELDS; i++)
        proven[i] = fields[i];
    proven[PROVEN_FIELDS] = (__u32)header->flags << 16;
#pragma unroll
    for (unsigned int i = 2; i < WIRESUM_HELLO_WORDS; i++)
        proven[PROVEN_FIELDS - 1 + i] = words[i];
    struct siphash state = siphash_begin(key);
#pragma unroll
    for (unsigned int i = 0; i < PROVEN_WORDS; i++)
        siphash_add(&state, (__u64)proven[2 * i + 1] << 32 | proven[2 * i]);
    return siphash_end(&state, 8 * PROVEN_WORDS);
}

#endif
