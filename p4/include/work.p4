// SPDX-License-Identifier: Apache-2.0
/* What a packet carries through the pipeline besides its headers, and the numbers that parts of the program agree on. */
#ifndef WIRESUM_WORK_P4
#define WIRESUM_WORK_P4

#include "verdicts.p4"

/* Slots of the switch: the length of each register array. */
#ifndef SLOTS
#define SLOTS 8192
#endif

/* Addresses every switch on the way that sums for the packet's stream. */
const bit<16> ANY_NODE = 0xffff;

/* Number of a stream in the switch's table, and position in it: what a slot knows its fragment by. 0 is a free slot. */
typedef bit<48> key_t;
typedef bit<64> contributors_t;
/* A worker is 64 times its cohort and its number there: the workers that one packet can name. */
typedef bit<2> cohort_t;
typedef bit<6> member_t;

/* Where the packet goes that was left in place of the one that came. */
const bit<2> EGRESS_NOWHERE = 0;
const bit<2> EGRESS_UP = 1;
const bit<2> EGRESS_DOWN = 2;

/* What a slot's key says to an arriving fragment; EVICTED is OTHER or NEWER, and less urgent. */
const bit<3> RELATION_FREE = 0;
const bit<3> RELATION_SAME = 1;
const bit<3> RELATION_FINISHED = 2;
const bit<3> RELATION_NEWER = 3;
const bit<3> RELATION_OTHER = 4;
const bit<3> RELATION_EVICTED = 5;

/* What is done to a key in its one access. */
const bit<3> KEY_READ = 0;
const bit<3> KEY_TAKE = 1;
const bit<3> KEY_FREE = 2;
const bit<3> KEY_CLAIM = 3;
const bit<3> KEY_STORE = 4;

/* What adding a packet to a slot comes to. */
const bit<2> MERGE_FIRST = 0;
const bit<2> MERGE_ADDED = 1;
const bit<2> MERGE_DUPLICATE = 2;
const bit<2> MERGE_OVERLAP = 3;

/* What is done to any other cell in its one access. ENTER: written if it is the slot's first, else joined with what is there. */
const bit<2> CELL_READ = 0;
const bit<2> CELL_WRITE = 1;
const bit<2> CELL_JOIN = 2;
const bit<2> CELL_EXCHANGE = 3;

/* What the switch's table says of a stream. */
struct place_t {
    bit<16> number;
    contributors_t members;
    bit<8> member_count;
    /* This switch, as packets address it. */
    bit<16> node;
    /* Whether the sum goes up; otherwise it is the result. */
    bit<1> has_parent;
    bit<32> base;
    bit<32> slots;
    bit<32> window;
    /* How lanes are merged: none of MERGED_LANES, or some. */
    bit<16> lanes;
}

struct work_t {
    place_t place;
    key_t key;
    bit<32> slot;
    /* Whether the stream may use that slot. */
    bit<1> has_slot;
    bit<1> is_result;
    bit<1> is_resent;
    /* Whether the switch has forgotten what it held of the stream. */
    bit<1> is_forgotten;
    bit<1> is_first;
    bit<1> is_complete;
    bit<3> relation;
    /* What the slot's key was, and its urgency. */
    key_t held_key;
    bit<8> urgency;
    bit<2> merge;
    /* Who is in, after the packet. */
    contributors_t held;
    /* Lane sum of the values, as the sender claims it: one more lane. */
    bit<32> lane_sum;
    /* Whether the stream is in the table, and the packet is for what is summed here. */
    bit<1> is_known;
    bit<1> is_concerned;
    /* On its way round once more. */
    bit<1> is_second;
    bit<1> goes_again;
    /* What leaves is another fragment's partial sum, of the stream with this number. */
    bit<1> is_evicted;
    bit<16> owner;
    bit<8> verdict;
    bit<2> egress;
}

#endif
