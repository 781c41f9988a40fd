/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a switch knows: the table of the streams that it sums, its slots, its counters.
 * crates/xdp/src/switch/layout.rs mirrors every struct here; a test compares them field by field. */
#ifndef WIRESUM_SWITCH_MAPS_H
#define WIRESUM_SWITCH_MAPS_H

#include "../budget.h"
#include "../config.h"
#include "../peer.h"
#include "../wiresum_verdicts.h"

/* Streams of one switch, and jobs: few enough to be searched linearly. */
#define MAX_PLACES 64
#define MAX_JOBS 16
/* Neighbours of one switch, each on an interface of its own. */
#define MAX_NEIGHBOURS 64

struct switch_config {
    __u32 payload_len; /* of the longest packet that is summed here */
    __u16 node;
    __u16 reserved;
};

const volatile struct switch_config switch_config SEC(".rodata.switch");

/* A stream that is summed here, for one cohort of its job's workers. Its number is its index in the table,
 * from 1. */
struct place {
    __u64 members;
    __u32 base;   /* its first slot */
    __u32 slots;  /* that it may use */
    __u32 window; /* a worker sends position p only after it has the result of p − window */
    __u16 job;
    __u16 sub_model;
    __u16 parent; /* where the sum goes; void at the root */
    __u8 is_root;
    __u8 member_count;
    __u16 number_sum; /* of the members' numbers, from 1 */
    __u16 lanes;      /* how they are merged: none of MERGED_LANES, or some */
};

/* The format flags that a stream's packets share; the byte order is each packet's own. */
#define MERGED_LANES (WIRESUM_FLAG_MAXIMUM | WIRESUM_FLAG_LANES16)

/* Key of a place in use: that of a free one, 0, matches no packet. */
#define COHORT_SHIFT 33
#define PLACE_KEY(job, sub_model, cohort) ((__u64)(cohort) << COHORT_SHIFT | STREAM_KEY(job, sub_model))

/* A job, in the incarnation that runs, if one does. */
struct running {
    __u64 key;
    __u16 job;
    __u8 is_running;
    __u8 is_admitted; /* whether the index is a job's */
    __u8 reserved[4];
};

/* Log2 of the positions whose values carry the same key. */
#define GENERATION_SHIFT 30
/* Renewals by time whose keys count: the present one, the next, the last. */
#define RENEWALS 3

/* Key of a stream in use. */
#define STREAM_KEY(job, sub_model) (1ULL << 32 | (__u32)(job) << 16 | (sub_model))

/* What the values of a job's stream carry. */
struct stream_keys {
    __u64 stream;                                       /* 0: free */
    __u64 keys[RENEWALS][1 << (32 - GENERATION_SHIFT)]; /* by the upper bits of a position */
};

struct table {
    __u32 place_count; /* one more than the last in use */
    __u32 endpoint_count;
    __u32 stream_count; /* one more than the last in use */
    __u32 reserved;
    __u64 forgotten; /* by place: what is sent again goes past the slots */
    struct endpoint endpoints[MAX_ENDPOINTS];
    struct running jobs[MAX_JOBS];
    struct stream_keys streams[MAX_PLACES];
    __u64 keys[MAX_PLACES];
    struct place places[MAX_PLACES];
};

struct table table SEC(".data.table");

/* By address: who is next to this switch, as its plans say, and how they were heard; by no interface before
 * they were. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_NEIGHBOURS);
    __type(key, struct endpoint);
    __type(value, struct hearing);
} acquaintances SEC(".maps");

/* The registers of spec/switch.md, those of all policies, in one cache line, and what is known of the values.
 * Values beyond their length are zero. */
struct slot {
    __u32 lock;     /* 1: taken; see lock.h */
    __u32 lane_sum; /* of the values, or what it would be had every addition been right */
    __u64 key;
    __u64 contributors;
    __u64 shadow_key;
    __u64 scale;   /* round << 8 | exponent */
    __u64 job_key; /* of the fragment, for whoever sends it on in another's packet */
    __u32 count;
    __u32 shadow_lane_sum;
    __u16 payload_len;
    __u16 shadow_len;
    __u8 congestion;
    __u8 is_final;
    __u8 bank; /* of the two: that of the values; the other one is the shadow's */
    __u8 reserved;
};

_Static_assert(sizeof(struct slot) == 64, "one cache line");

/* Sizes given here are the least; the loader sets those of the plan. The memory of maps that can be mapped
 * begins at a page; that of others, somewhere in a cache line. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct slot);
} slots SEC(".maps");

/* In this machine's byte order; one bank of config.max_payload bytes, or two. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, 2 * WIRESUM_PAGE_PAYLOAD);
} values SEC(".maps");

/* In place of a job's index in the table: a packet of no job that runs. */
#define NO_JOB MAX_JOBS

struct tally {
    __u64 verdicts[VERDICT_RANGE];
    __u64 bytes; /* of datagrams that do not go to the station */
};

/* By job. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, MAX_JOBS + 1);
    __type(key, __u32);
    __type(value, struct tally);
} tallies SEC(".maps");

/* What each job's workers may contribute, and what may be said to the station by those who are not next to
 * the switch. */
#define STRANGERS_BUDGET MAX_JOBS

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, STRANGERS_BUDGET + 1);
    __type(key, __u32);
    __type(value, struct budget);
} budgets SEC(".maps");

#endif
