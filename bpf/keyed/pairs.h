/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The pairs of a packet: all of them have a home and are added, or none. */
#ifndef WIRESUM_KEYED_PAIRS_H
#define WIRESUM_KEYED_PAIRS_H

#include "../rows/arrival.h"
#include "maps.h"

/* Bounds of offsets in a packet, for the verifier. */
#define MAX_PAIR_OFFSET 0xfff

/* Pairs that are looked at one after the other. The verifier goes through each step once, for any pair. */
struct pairs {
    struct xdp_md *ctx;
    struct scratch *scratch;
    __u32 keys_at; /* in the frame */
    __u32 values_at;
    __u32 count;
    __u32 table;
    __u32 tag;
    __u32 passes; /* that the pairs so far need */
    __u32 done;
};

static __always_inline void *pair_field(const struct pairs *pairs, __u32 offset) {
    return (void *)(long)pairs->ctx->data + (offset & MAX_PAIR_OFFSET);
}

/* Finds the cell of a pair's key, and the pass that reaches it. Stops at a key that is not hot. */
static long find_home(__u64 index, struct pairs *pairs) {
    const __be32 *key = pair_field(pairs, pairs->keys_at + 8 * index);
    if ((void *)(key + 2) > (void *)(long)pairs->ctx->data_end)
        return 1;
    struct hot_key hot = {.key = (__u64)bpf_ntohl(key[0]) << 32 | bpf_ntohl(key[1]), .table = pairs->table};
    struct home *home = bpf_map_lookup_elem(&homes, &hot);
    if (!home)
        return 1;
    pairs->scratch->cells[index % MAX_PAIRS] = home->cell;
    __u32 pass = ++pairs->scratch->pairs[home->register_number % MAX_REGISTERS];
    if (pass > pairs->passes)
        pairs->passes = pass;
    pairs->done = index + 1;
    return 0;
}

static __always_inline void change_cell(struct cell *cell, __u32 tag, __u32 change) {
    cell->held = change + (cell->tag == tag ? cell->held : 0);
    cell->tag = tag;
}

static long add_pair(__u64 index, struct pairs *pairs) {
    void *value = pair_field(pairs, pairs->values_at + 4 * index);
    __u32 at = pairs->scratch->cells[index % MAX_PAIRS];
    struct cell *cell = bpf_map_lookup_elem(&keyed_registers, &at);
    if (!cell || value + 4 > (void *)(long)pairs->ctx->data_end)
        return 1;
    change_cell(cell, pairs->tag, load_lane32(value, LITTLE_ENDIAN_LANES));
    return 0;
}

/* Whether every key is hot, and the packet needs no more passes than it may have. */
static __always_inline int have_homes(struct pairs *pairs) {
    if (pairs->count > keyed_config.pairs)
        return 0;
    __builtin_memset(pairs->scratch->pairs, 0, sizeof(pairs->scratch->pairs));
    bpf_loop(pairs->count, find_home, pairs, 0);
    return pairs->done == pairs->count && pairs->passes <= keyed_config.recirculations + 1;
}

#endif
