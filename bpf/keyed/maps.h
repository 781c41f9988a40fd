/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is known of tables whose hot keys are summed: their open iteration, who has sent what of it, sums.
 * crates/xdp/src/keyed/layout.rs mirrors every struct here; a test compares them field by field. */
#ifndef WIRESUM_KEYED_MAPS_H
#define WIRESUM_KEYED_MAPS_H

#include "../maps.h"

/* Pairs of the longest packet, and register arrays of a program, as powers of two: masks that the verifier
 * takes for bounds. */
#define MAX_PAIRS 256
#define MAX_REGISTERS 64
#define NUMBERS_PER_CELL 32
#define KEYED_WORKERS 32

_Static_assert(MAX_PAIRS * 12 > WIRESUM_PAGE_PAYLOAD - WIRESUM_ROW_HEADER_LEN, "no packet has more pairs");

struct keyed_config {
    __u32 pairs; /* of a packet, at most */
    __u32 recirculations;
};

const volatile struct keyed_config keyed_config SEC(".rodata.keyed");

/* A table, by the index that the directory gives its stream, and its open iteration. Whatever cells have
 * another tag are as if they were zero. */
struct keyed_table {
    __u32 lock; /* 1: taken; see ../lock.h */
    __u32 round;
    __u64 job_key;
    __u32 tag;
    __u32 map_version;
    __u32 packets; /* of a worker in an iteration, at most */
    __u32 first_number;
    __u32 number_cells; /* of a worker */
    __u32 members;      /* workers as a bitmap */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS);
    __type(key, __u32);
    __type(value, struct keyed_table);
} keyed_tables SEC(".maps");

/* A register cell: all are tags and 32 bits of something. */
struct cell {
    __u32 tag;
    __u32 held;
};

/* Which of 32 packets have come. Sizes given here are the least; the loader sets those of the tables. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cell);
} keyed_numbers SEC(".maps");

/* The register arrays, one after the other. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cell);
} keyed_registers SEC(".maps");

/* What a worker has announced less what has come: worker w of table t is t × KEYED_WORKERS + w. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS *KEYED_WORKERS);
    __type(key, __u32);
    __type(value, struct cell);
} keyed_missing SEC(".maps");

/* Workers of a table of whom nothing is missing. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS);
    __type(key, __u32);
    __type(value, struct cell);
} keyed_done SEC(".maps");

struct hot_key {
    __u64 key;
    __u32 table;
    __u32 reserved;
};

/* Where a hot key's sum is. */
struct home {
    __u32 register_number;
    __u32 cell; /* among all registers' */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, struct hot_key);
    __type(value, struct home);
} homes SEC(".maps");

/* What is found out of a packet before anything of it is added. */
struct scratch {
    __u32 cells[MAX_PAIRS];
    __u8 pairs[MAX_REGISTERS]; /* by register */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

#endif
