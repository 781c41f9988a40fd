/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is known of streams of hot rows: their memory, their open round, who has sent what of it.
 * crates/xdp/src/rows/layout.rs mirrors every struct here; a test compares them field by field. */
#ifndef WIRESUM_ROWS_MAPS_H
#define WIRESUM_ROWS_MAPS_H

#include "../maps.h"

/* Values that are added between two comparisons with a row's end; rows in memory are padded to as many. */
#define STRIDE 8

/* Values of the longest row here of either kind, multiples of STRIDE; 0: there is none. */
struct rows_config {
    __u32 float_room;
    __u32 int_room;
};

const volatile struct rows_config rows_config SEC(".rodata.rows");

/* A stream of hot rows, by the index that the directory gives it, and its open round. Whatever rows and
 * numbers are of another generation is as if it were zero: each round of each incarnation has one of its own,
 * so nothing is ever cleared. */
struct hot_stream {
    __u32 lock; /* 1: taken; see ../lock.h */
    __u32 round;
    __u64 job_key;
    __u32 generation;
    __u32 map_version;
    __u32 first_row;
    __u32 positions;
    __u32 first_word; /* of the words for contributor 0 */
    __u32 words;      /* of 32 packets each, for every contributor */
    __u16 dim;
    __u16 lanes; /* WIRESUM_FLAG_FLOAT, or 0 */
    __u32 reserved;
    __u64 unfinished; /* contributors whose packets of the round are not all in */
    __u32 left;       /* the sums of positions below it have left; set by the station */
    __u32 is_noted;   /* the station has a note that it has not taken; see note_progress */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, MAX_STREAMS);
    __type(key, __u32);
    __type(value, struct hot_stream);
} hot_streams SEC(".maps");

/* What a contributor has sent in a round: contributor c to stream s is s × WIRESUM_MAX_CONTRIBUTORS + c. */
struct reception {
    __u32 generation;
    __u32 count;
    __u32 announced; /* how many there are, or NOT_ANNOUNCED */
    __u32 least;     /* one more than the largest number so far */
    __u32 next;      /* all packets with smaller numbers are in */
    __u32 reached;   /* rows to come are at this position or behind it */
};

#define NOT_ANNOUNCED 0xffffffff

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, MAX_STREAMS *WIRESUM_MAX_CONTRIBUTORS);
    __type(key, __u32);
    __type(value, struct reception);
} receptions SEC(".maps");

/* Which of 32 packets have come. */
struct numbers {
    __u32 generation;
    __u32 seen;
};

/* Sizes given here are the least; the loader sets those of the plan. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct numbers);
} numbers SEC(".maps");

/* What stands before a row's lanes: of 64 bits for float32, of 32 bits for int32. */
struct hot_row {
    __u64 contributors;
    __u32 generation;
    __u32 is_in_map; /* whether the position has a row; set by the station, which reads sums where they lie */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct hot_row) + 8 * WIRESUM_MAX_ROW_VALUES);
} hot_rows SEC(".maps");

#endif
