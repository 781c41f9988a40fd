// SPDX-License-Identifier: Apache-2.0
/* Register cells as v1model has them: read, changed and written at once. The reference switch would allow more than one access to
 * an array; programs here make one, as the signatures are those of hardware. Indices are within bounds when they come here. */
#ifndef WIRESUM_CELLS_P4
#define WIRESUM_CELLS_P4

#include "../include/headers.p4"
#include "../include/work.p4"

/* The remainder of a position by a stream's window: expressions have none for numbers that the compiler does not know. */
#define REMAINDER(result, position, window) hash(result, HashAlgorithm.identity, 32w0, { position }, window)

/* What a slot knows of its fragment: urgency in bits 48 to 55, the stream's number, the position. */
control KeyCell(in bit<3> op, in bit<32> slot, in key_t key, in bit<32> window, in bit<8> priority,
                out bit<3> relation, out key_t held, out bit<8> urgency) {
    register<bit<64>, bit<32>>(ENTRIES) cells;
    bit<64> cell;
    bit<32> ahead;
    apply {
        cells.read(cell, slot);
        held = cell[47:0];
        urgency = cell[55:48];
        ahead = key[31:0] - cell[31:0];
        if (held == key) {
            relation = RELATION_SAME;
        } else if (held == 0) {
            relation = RELATION_FREE;
        } else if (held[47:32] != key[47:32]) {
            relation = RELATION_OTHER;
        } else if (ahead[31:31] == 1) {
            relation = RELATION_NEWER;
        } else if (ahead >= window) {
            relation = RELATION_FINISHED;
        } else {
            relation = RELATION_OTHER;
        }
        if (op == KEY_STORE) {
            cell = (bit<64>)key;
        } else if (op == KEY_FREE && relation == RELATION_SAME) {
            cell = 0;
        } else if (op == KEY_TAKE && (relation == RELATION_FREE || relation == RELATION_FINISHED)) {
            cell = (bit<64>)key;
        } else if (op == KEY_CLAIM && (relation == RELATION_FREE || relation == RELATION_FINISHED)) {
            cell = 8w0 ++ priority ++ key;
        } else if (op == KEY_CLAIM && relation != RELATION_SAME && priority > urgency) {
            relation = RELATION_EVICTED;
            cell = 8w0 ++ priority ++ key;
        } else if (op == KEY_CLAIM && relation != RELATION_SAME) {
            cell = 8w0 ++ (urgency >> 1) ++ held;
        }
        cells.write(slot, cell);
    }
}

/* The workers whose contributions are in a slot. `held`: after the packet, or, exchanged or read, before it. */
control ContributorsCell(in bit<2> op, in bit<32> slot, in contributors_t arriving, out contributors_t held, out bit<2> merge) {
    register<bit<64>, bit<32>>(ENTRIES) cells;
    contributors_t before;
    contributors_t after;
    apply {
        cells.read(before, slot);
        if (op == CELL_WRITE) {
            merge = MERGE_FIRST;
            after = arriving;
        } else if (before & arriving == 0) {
            merge = MERGE_ADDED;
            after = before | arriving;
        } else if (before & arriving == arriving) {
            merge = MERGE_DUPLICATE;
            after = before;
        } else {
            merge = MERGE_OVERLAP;
            after = before;
        }
        held = after;
        if (op == CELL_EXCHANGE) {
            held = before;
            after = arriving;
        } else if (op == CELL_READ) {
            held = before;
            after = before;
        }
        cells.write(slot, after);
    }
}

/* One bit that sticks. */
control FlagCell(in bit<2> op, in bit<32> slot, in bit<1> arriving, out bit<1> before, out bit<1> after) {
    register<bit<1>, bit<32>>(ENTRIES) cells;
    apply {
        cells.read(before, slot);
        after = before;
        if (op == CELL_WRITE || op == CELL_EXCHANGE) {
            after = arriving;
        } else if (op == CELL_JOIN) {
            after = before | arriving;
        }
        cells.write(slot, after);
    }
}

/* Round and exponent of the fragment: exchanged. */
control ScaleCell(in bit<32> slot, in bit<40> arriving, out bit<40> before) {
    register<bit<40>, bit<32>>(ENTRIES) cells;
    apply {
        cells.read(before, slot);
        cells.write(slot, arriving);
    }
}

/* InGo's counter: starts anew once it has reached the mark. */
control CountCell(in bit<32> slot, in bit<32> number, in bit<32> mark, out bit<32> after) {
    register<bit<32>, bit<32>>(ENTRIES) cells;
    bit<32> before;
    apply {
        cells.read(before, slot);
        after = before + number;
        if (before == mark) {
            after = number;
        }
        cells.write(slot, after);
    }
}

/* A lane that is held and one that arrives, or pairs of narrow ones, as one: summed, or the larger kept. Signed numbers
 * with their upper bits turned are in the order of unsigned ones. */
#define LARGER(a, b, top) ((a ^ top) < (b ^ top) ? b : a)
#define SUMS_OF_HALVES(a, b) ((a[31:16] + b[31:16]) ++ (a[15:0] + b[15:0]))
#define LARGER_HALVES(a, b) (LARGER(a[31:16], b[31:16], 0x8000) ++ LARGER(a[15:0], b[15:0], 0x8000))
#define MERGED(a, b) \
    (format == 0 ? a + b \
     : (format == WIRESUM_FLAG_LANES16 ? SUMS_OF_HALVES(a, b) \
        : (format == WIRESUM_FLAG_MAXIMUM ? LARGER(a, b, 0x80000000) : LARGER_HALVES(a, b))))

/* The values of a fragment and their lane sum. Afterwards the packet has what the cells hold; exchanged, what they held. */
#define DECLARE_LANE(i) register<bit<32>, bit<32>>(ENTRIES) lane_##i;
#define ACCESS_LANE(i) \
    lane_##i.read(before, slot); \
    after = op == CELL_JOIN ? MERGED(before, lanes.v##i) : (op == CELL_READ ? before : lanes.v##i); \
    lane_##i.write(slot, after); \
    lanes.v##i = op == CELL_EXCHANGE ? before : after;
control Bank(in bit<2> op, in bit<32> slot, in bit<16> format, inout lanes_h lanes, inout bit<32> lane_sum) {
    FOR_EACH_LANE(DECLARE_LANE)
    register<bit<32>, bit<32>>(ENTRIES) lane_sums;
    bit<32> before;
    bit<32> after;
    apply {
        FOR_EACH_LANE(ACCESS_LANE)
        lane_sums.read(before, slot);
        after = op == CELL_JOIN ? before + lane_sum : (op == CELL_READ ? before : lane_sum);
        lane_sums.write(slot, after);
        lane_sum = op == CELL_EXCHANGE ? before : after;
    }
}

#endif
