/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the program knows: constants set at load, jobs, peers and keys set by the daemon, and the slots.
 * crates/xdp/src/layout.rs mirrors every struct here; a test compares them field by field. */
#ifndef WIRESUM_MAPS_H
#define WIRESUM_MAPS_H

#include "budget.h"
#include "config.h"
#include "datagram.h"
#include "peer.h"
#include "wiresum_verdicts.h"

/* Jobs of one program, and the sub-models of all of them at their nodes: small enough to be searched
 * linearly. */
#define MAX_JOBS 16
#define MAX_STREAMS 64
/* Hellos and welcomes whose port the daemon has not asked for yet. */
#define MAX_HEARD 1024
/* A page, the least there is: 256 notes. */
#define CHECK_QUEUE_BYTES 4096

/* Log2 of the positions whose values carry the same key. */
#define GENERATION_SHIFT 30
/* Renewals by time whose keys count: the present one, the next, the last. */
#define RENEWALS 3

/* A sub-model at this node, as the plan says, and what its values carry. */
struct stream {
    __u64 expected;                                           /* bitmap of all children */
    __u64 parent_key[2];                                      /* of the node's own seat at the parent */
    __u64 value_keys[RENEWALS][1 << (32 - GENERATION_SHIFT)]; /* by the upper bits of a position */
    __u16 node;
    __u16 parent_node;
    __u32 first_entry;
    __u32 entry_mask; /* 2 × slots − 1: position & mask is 2 versions of position mod slots */
    __u16 max_payload;
    __u8 job_index;
    __u8 child_count; /* without substitutes */
    __u8 is_root;
    __u8 own_index; /* as a contributor at the parent */
    __u8 parent_children;
    __u8 seat_count;  /* with substitutes */
    __u8 check_shift; /* log2 of the positions between two notes on the check queue */
    __u8 is_proven;   /* values carry proofs */
    __u8 round_shift; /* log2 of the positions that a round of rows is taken for; see rows/arrival.h */
    __u8 reserved;
};

/* Key of a stream in use: that of a free one, 0, matches no packet. */
#define STREAM_KEY(job, sub_model) (1ULL << 32 | (__u32)(job) << 16 | (sub_model))

/* The streams of the jobs that are served now. The daemon changes it while packets flow: of a job that comes
 * or goes, no incarnation runs, so packets that find it half written are foreign. */
struct directory {
    __u32 stream_count; /* one more than the last in use */
    __u32 endpoint_count;
    struct endpoint endpoints[MAX_ENDPOINTS];
    __u64 keys[MAX_STREAMS];
    struct stream streams[MAX_STREAMS];
};

struct directory directory SEC(".data.directory");

/* The running incarnation of a job. */
struct job {
    __u64 key;
    __u64 running;
};

/* What is known of an entry's values, in one cache line: CPUs at neighbouring entries do not wait for each
 * other. */
struct entry {
    __u32 lock; /* 1: taken; see lock.h */
    __u32 position;
    __u64 job_key;
    __u64 contributors;
    __u32 round;
    __u32 lane_sum; /* of the values, or what it would be had every addition been right */
    __u16 value_count;
    __u16 format;
    __s8 exponent;
    __u8 state;
    __u8 exchange;
    __u8 reserved[25];
};

_Static_assert(sizeof(struct entry) == 64, "one cache line");

/* Sizes given here are the least; the loader sets those of the plans. The memory of maps that can be mapped
 * begins at a page; that of others, somewhere in a cache line. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct entry);
} entries SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, WIRESUM_PAGE_PAYLOAD);
} values SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_JOBS);
    __type(key, __u32);
    __type(value, struct job);
} jobs SEC(".maps");

/* For the values of each job, for its control packets, and for the control packets of strangers. */
#define VALUES_BUDGET(job) (job)
#define CONTROL_BUDGET(job) (MAX_JOBS + (job))
#define STRANGERS_BUDGET (2 * MAX_JOBS)
#define BUDGETS (STRANGERS_BUDGET + 1)

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, BUDGETS);
    __type(key, __u32);
    __type(value, struct budget);
} budgets SEC(".maps");

/* The child that is contributor c to stream s: entry s × WIRESUM_MAX_CONTRIBUTORS + c. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS *WIRESUM_MAX_CONTRIBUTORS);
    __type(key, __u32);
    __type(value, struct peer);
} children SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS);
    __type(key, __u32);
    __type(value, struct peer);
} parents SEC(".maps");

/* The keys of those seats, each in two halves. */
struct seat_key {
    __u64 half[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS *WIRESUM_MAX_CONTRIBUTORS);
    __type(key, __u32);
    __type(value, struct seat_key);
} seat_keys SEC(".maps");

/* What the values of a job are hashed by, where they carry proofs. */
struct value_hash {
    __u32 words[WIRESUM_PAGE_PAYLOAD / 4];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_JOBS);
    __type(key, __u32);
    __type(value, struct value_hash);
} value_hashes SEC(".maps");

/* By source, of those who have a seat's key. The least recently heard are forgotten. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, MAX_HEARD);
    __type(key, struct endpoint);
    __type(value, struct hearing);
} heard SEC(".maps");

/* For each stream, the ports of its admitted children, one entry for each child. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, MAX_STREAMS);
    __uint(key_size, sizeof(__u32));
    __array(
        values, struct {
            __uint(type, BPF_MAP_TYPE_DEVMAP);
            __uint(max_entries, WIRESUM_MAX_CONTRIBUTORS);
            __uint(key_size, sizeof(__u32));
            __uint(value_size, sizeof(struct bpf_devmap_val));
        });
} broadcasts SEC(".maps");

/* A stream, and a port behind which some of its children are. */
struct port {
    __u32 stream;
    __u32 ifindex;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_STREAMS *WIRESUM_MAX_CONTRIBUTORS);
    __type(key, struct port);
    __type(value, __u64);
} ports SEC(".maps");

/* What has become of a job's packets, on one CPU. */
struct tally {
    __u64 verdicts[VERDICT_RANGE];
    __u64 bytes; /* of datagrams */
};

/* The tally of packets that name no job, behind those of the jobs. */
#define NO_JOB MAX_JOBS

/* The check queue: something has moved at a position of a stream. A note that finds no room is not needed:
 * the daemon looks at the slots when it takes those before it. */
struct check {
    __u32 stream;
    __u32 position;
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, CHECK_QUEUE_BYTES);
} checks SEC(".maps");

/* Notes that something has moved. Returns whether there was room. */
static __always_inline int submit_check(__u32 stream, __u32 position) {
    struct check *check = bpf_ringbuf_reserve(&checks, sizeof(*check), 0);
    if (!check)
        return 0;
    check->stream = stream;
    check->position = position;
    bpf_ringbuf_submit(check, 0);
    return 1;
}

/* The entry of a stream is not 0 if the daemon wants a note of the very next position that moves. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_STREAMS);
    __type(key, __u32);
    __type(value, __u32);
} armed SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, MAX_JOBS + 1);
    __type(key, __u32);
    __type(value, struct tally);
} tallies SEC(".maps");

#endif
