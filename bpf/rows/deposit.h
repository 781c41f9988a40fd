/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The rows of a packet and their sums: all of them are added, or none. */
#ifndef WIRESUM_ROWS_DEPOSIT_H
#define WIRESUM_ROWS_DEPOSIT_H

#include "lanes.h"

/* Bounds of offsets in a packet, for the verifier. */
#define MAX_OFFSET 0xfff

/* Rows that are taken one after the other. The verifier goes through each step once, for any row. */
struct rows {
    struct xdp_md *ctx;
    __u64 bit; /* the contributor's */
    __u32 at;  /* of the offsets, in the frame */
    __u32 values_at;
    __u32 count;
    __u32 base;
    __u32 generation;
    __u32 first_row;
    __u32 positions;
    __u32 least; /* position: sums before it have left */
    __u32 dim;
    __u32 format;   /* of values: FLOATS or their like */
    __u32 zero;     /* see hidden_zero */
    __u32 previous; /* offset of the row before, and 1 */
    __u32 done;     /* rows that were marked */
    __s32 excess;   /* less than 0 if a value is out of range */
};

/* The row's offset, or −1. */
static __always_inline __s32 offset_of(const struct rows *rows, __u32 index) {
    void *at = (void *)(long)rows->ctx->data + ((rows->at + 2 * index) & MAX_OFFSET);
    return at + 2 > (void *)(long)rows->ctx->data_end ? -1 : get16(at);
}

static __always_inline struct hot_row *find_row(const struct rows *rows, __u32 offset) {
    __u64 position = (__u64)rows->base + offset;
    __u32 index = rows->first_row + position;
    return position >= rows->least && position < rows->positions ? bpf_map_lookup_elem(&hot_rows, &index) : 0;
}

static __always_inline __s32 change_as(const struct rows *rows, __u32 index, struct hot_row *row,
                                       __u16 format, enum how how) {
    __u32 at = rows->values_at + index * rows->dim * width_of(format);
    void *values = (void *)(long)rows->ctx->data + (at & MAX_OFFSET);
    return change_row(row + 1, values, (void *)(long)rows->ctx->data_end, rows->dim, rows->zero, format, how);
}

/* A loop for each format, and not one that asks at each value. */
static __always_inline __s32 change(const struct rows *rows, __u32 index, struct hot_row *row, enum how how) {
    switch (rows->format) {
    case FLOATS:
        return change_as(rows, index, row, FLOATS, how);
    case BFLOATS:
        return change_as(rows, index, row, BFLOATS, how);
    case HALVES:
        return change_as(rows, index, row, HALVES, how);
    default:
        return change_as(rows, index, row, 0, how);
    }
}

/* Enters the contributor into a row, if it has a place here and has not been given before. */
static __always_inline struct hot_row *enter(struct rows *rows, __u32 index) {
    __s32 offset = offset_of(rows, index);
    if (offset < (__s32)rows->previous)
        return 0;
    rows->previous = offset + 1;
    struct hot_row *row = find_row(rows, offset);
    if (!row || !row->is_in_map)
        return 0;
    if (row->generation != rows->generation) {
        row->generation = rows->generation;
        row->contributors = 0;
    }
    if (row->contributors & rows->bit)
        return 0;
    row->contributors |= rows->bit;
    rows->done = index + 1;
    return row;
}

static long take_row(__u64 index, struct rows *rows) {
    struct hot_row *row = enter(rows, index);
    if (!row)
        return 1;
    int is_first = row->contributors == rows->bit;
    rows->excess |= is_first ? change(rows, index, row, PUT) : change(rows, index, row, RAISE);
    return rows->excess < 0;
}

/* Takes back what should not have been added. */
static long give_back_row(__u64 index, struct rows *rows) {
    struct hot_row *row = find_row(rows, offset_of(rows, index));
    if (!row)
        return 1;
    row->contributors &= ~rows->bit;
    if (row->contributors)
        change(rows, index, row, LOWER);
    return 0;
}

/* Stops at a row whose position is not beyond that of the row before. */
static long compare_offsets(__u64 index, struct rows *rows) {
    __s32 offset = offset_of(rows, index);
    if (offset < (__s32)rows->previous)
        return 1;
    rows->previous = offset + 1;
    rows->done = index + 1;
    return 0;
}

/* Whether positions ascend, each within 32 bits; asked only of packets that cannot be taken. */
static __always_inline int are_ascending(struct rows *rows) {
    rows->previous = rows->done = 0;
    bpf_loop(rows->count, compare_offsets, rows, 0);
    return rows->done == rows->count && (__u64)rows->base + rows->previous <= 1ULL << 32;
}

/* Adds all rows, or none. */
static __always_inline enum verdict take_rows(struct rows *rows) {
    bpf_loop(rows->count, take_row, rows, 0);
    if (rows->done == rows->count && rows->excess >= 0)
        return ADDED;
    bpf_loop(rows->done, give_back_row, rows, 0);
    return are_ascending(rows) ? WRONG : MALFORMED;
}

#endif
