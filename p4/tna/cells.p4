// SPDX-License-Identifier: Apache-2.0
/* Register cells as a pipeline's stateful ALUs have them (T2NA, the native architecture of Tofino 2): one action of each array runs
 * while a packet passes. What an ALU can decide about a cell is small, so actions return what was there, and the rest is decided
 * behind them.
 *
 * Two things that the reference does in one access do not fit an ALU. Bits of a set cannot be entered only if none of them is in:
 * here they always are, so packets have to come with the whole set of one child (`children` in switch.p4), which is in or not.
 * And `preempt` compares, swaps and halves in one access: it is not offered. */
#ifndef WIRESUM_CELLS_P4
#define WIRESUM_CELLS_P4

#include "../include/headers.p4"
#include "../include/work.p4"

/* Windows are powers of two here. */
#define REMAINDER(result, position, window) result = position & (window - 1)

struct pair_t {
    bit<32> high;
    bit<32> low;
}

/* What a slot knows of its fragment: the stream's number, the position. */
control KeyCell(in bit<3> op, in bit<32> slot, in key_t key, in bit<32> window, in bit<8> priority,
                out bit<3> relation, out key_t held, out bit<8> urgency) {
    Register<pair_t, bit<32>>(ENTRIES) cells;
    bit<32> number = (bit<32>)key[47:32];
    bit<32> position = key[31:0];
    /* Positions up to this one are a window older. */
    bit<32> last_finished = key[31:0] - window;
    bit<32> old_number = 0;
    bit<32> old_position = 0;
    bit<32> ahead;
    bit<32> beyond;

    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) read = {
        void apply(inout pair_t cell, out bit<32> high, out bit<32> low) {
            high = cell.high;
            low = cell.low;
        }
    };
    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) take = {
        void apply(inout pair_t cell, out bit<32> high, out bit<32> low) {
            high = cell.high;
            low = cell.low;
            if (cell.high == 0 || (cell.high == number && (int<32>)(cell.low - last_finished) <= 0)) {
                cell.high = number;
                cell.low = position;
            }
        }
    };
    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) free = {
        void apply(inout pair_t cell, out bit<32> high, out bit<32> low) {
            high = cell.high;
            low = cell.low;
            if (cell.high == number && cell.low == position) {
                cell.high = 0;
            }
        }
    };
    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) store = {
        void apply(inout pair_t cell, out bit<32> high, out bit<32> low) {
            high = cell.high;
            low = cell.low;
            cell.high = number;
            cell.low = position;
        }
    };

    apply {
        urgency = 0;
        if (op == KEY_TAKE) {
            old_number = take.execute(slot, old_position);
        } else if (op == KEY_FREE) {
            old_number = free.execute(slot, old_position);
        } else if (op == KEY_STORE) {
            old_number = store.execute(slot, old_position);
        } else {
            old_number = read.execute(slot, old_position);
        }
        held = old_number[15:0] ++ old_position;
        ahead = position - old_position;
        beyond = ahead - window;
        if (old_number == 0) {
            relation = RELATION_FREE;
        } else if (old_number != number) {
            relation = RELATION_OTHER;
        } else if (ahead == 0) {
            relation = RELATION_SAME;
        } else if (ahead[31:31] == 1) {
            relation = RELATION_NEWER;
        } else if (beyond[31:31] == 0) {
            relation = RELATION_FINISHED;
        } else {
            relation = RELATION_OTHER;
        }
    }
}

/* The workers whose contributions are in a slot. */
control ContributorsCell(in bit<2> op, in bit<32> slot, in contributors_t arriving, out contributors_t held, out bit<2> merge) {
    Register<pair_t, bit<32>>(ENTRIES) cells;
    bit<32> high = arriving[63:32];
    bit<32> low = arriving[31:0];
    bit<32> old_high = 0;
    bit<32> old_low = 0;
    contributors_t before;

    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) read = {
        void apply(inout pair_t cell, out bit<32> was_high, out bit<32> was_low) {
            was_high = cell.high;
            was_low = cell.low;
        }
    };
    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) write = {
        void apply(inout pair_t cell, out bit<32> was_high, out bit<32> was_low) {
            was_high = 0;
            was_low = 0;
            cell.high = high;
            cell.low = low;
        }
    };
    RegisterAction2<pair_t, bit<32>, bit<32>, bit<32>>(cells) join = {
        void apply(inout pair_t cell, out bit<32> was_high, out bit<32> was_low) {
            was_high = cell.high;
            was_low = cell.low;
            cell.high = cell.high | high;
            cell.low = cell.low | low;
        }
    };

    apply {
        if (op == CELL_WRITE) {
            old_high = write.execute(slot, old_low);
        } else if (op == CELL_JOIN) {
            old_high = join.execute(slot, old_low);
        } else {
            old_high = read.execute(slot, old_low);
        }
        before = old_high ++ old_low;
        held = before;
        merge = MERGE_DUPLICATE;
        if (op == CELL_WRITE) {
            merge = MERGE_FIRST;
            held = arriving;
        } else if (op == CELL_JOIN && before & arriving == 0) {
            merge = MERGE_ADDED;
            held = before | arriving;
        }
    }
}

/* One bit that sticks. */
control FlagCell(in bit<2> op, in bit<32> slot, in bit<1> arriving, out bit<1> before, out bit<1> after) {
    Register<bit<1>, bit<32>>(ENTRIES) cells;

    RegisterAction<bit<1>, bit<32>, bit<1>>(cells) read = {
        void apply(inout bit<1> cell, out bit<1> was) {
            was = cell;
        }
    };
    RegisterAction<bit<1>, bit<32>, bit<1>>(cells) set = {
        void apply(inout bit<1> cell, out bit<1> was) {
            was = cell;
            cell = 1;
        }
    };
    RegisterAction<bit<1>, bit<32>, bit<1>>(cells) clear = {
        void apply(inout bit<1> cell, out bit<1> was) {
            was = cell;
            cell = 0;
        }
    };

    apply {
        if (op == CELL_READ || (op == CELL_JOIN && arriving == 0)) {
            before = read.execute(slot);
            after = before;
        } else if (arriving == 1) {
            before = set.execute(slot);
            after = 1;
        } else {
            before = clear.execute(slot);
            after = 0;
        }
    }
}

/* The values of a fragment and their lane sum. Afterwards the packet has what the cells hold. */
#define LANE_ARRAY(name, value) \
    Register<bit<32>, bit<32>>(ENTRIES) name; \
    RegisterAction<bit<32>, bit<32>, bit<32>>(name) read_##name = { \
        void apply(inout bit<32> cell, out bit<32> sum) { \
            sum = cell; \
        } \
    }; \
    RegisterAction<bit<32>, bit<32>, bit<32>>(name) write_##name = { \
        void apply(inout bit<32> cell, out bit<32> sum) { \
            cell = value; \
            sum = value; \
        } \
    }; \
    RegisterAction<bit<32>, bit<32>, bit<32>>(name) join_##name = { \
        void apply(inout bit<32> cell, out bit<32> sum) { \
            cell = cell + value; \
            sum = cell; \
        } \
    };
#define ACCESS_ARRAY(name, value) \
    if (op == CELL_JOIN) { \
        value = join_##name.execute(slot); \
    } else if (op == CELL_WRITE) { \
        value = write_##name.execute(slot); \
    } else { \
        value = read_##name.execute(slot); \
    }
#define DECLARE_LANE(i) \
    LANE_ARRAY(lane_##i, lanes.v##i) \
    RegisterAction<bit<32>, bit<32>, bit<32>>(lane_##i) maximize_##i = { \
        void apply(inout bit<32> cell, out bit<32> larger) { \
            if ((int<32>)cell < (int<32>)lanes.v##i) { \
                cell = lanes.v##i; \
            } \
            larger = cell; \
        } \
    };
#define ACCESS_LANE(i) \
    if (op == CELL_JOIN && format == WIRESUM_FLAG_MAXIMUM) { \
        lanes.v##i = maximize_##i.execute(slot); \
    } else ACCESS_ARRAY(lane_##i, lanes.v##i)
/* Pairs of narrow lanes do not fit an ALU that sums 32 bits: packets with them pass. */
control Bank(in bit<2> op, in bit<32> slot, in bit<16> format, inout lanes_h lanes, inout bit<32> lane_sum) {
    FOR_EACH_LANE(DECLARE_LANE)
    LANE_ARRAY(lane_sums, lane_sum)
    apply {
        FOR_EACH_LANE(ACCESS_LANE)
        ACCESS_ARRAY(lane_sums, lane_sum)
    }
}

#endif
