// SPDX-License-Identifier: Apache-2.0
/* Zebra's switch program (spec/keyed.md): pairs of hot keys and values, added in register arrays.
 *
 * A pass brings one pair to each register. Which pass is a pair's follows from the packet: the number of pairs of its register before
 * it. So a packet that goes round again has to know no more than how often it has been here. */
#ifndef WIRESUM_KEYED_PROGRAM_P4
#define WIRESUM_KEYED_PROGRAM_P4

#include "../include/verdicts.p4"
#include "check.p4"

/* Tables that are summed, workers of all of them, and hot keys of all of them. */
#define TABLES 16
#define WORKERS 512
#ifndef KEYS
#define KEYS 30000
#endif
/* Cells of each register array. */
#define CELLS (KEYS / REGISTERS + TABLES)
/* Cells for 32 numbers of packets each, of all workers. */
#ifndef NUMBERS
#define NUMBERS 4096
#endif
/* Most times that a packet goes round again. */
#ifndef RECIRCULATIONS
#define RECIRCULATIONS 1
#endif

/* Where a packet goes. */
const bit<2> KEYED_DROP = 0;
const bit<2> KEYED_BACK = 1;
const bit<2> KEYED_STATION = 2;
const bit<2> KEYED_AGAIN = 3;

/* What the control plane has installed for a table. */
struct table_t {
    bit<16> index;
    bit<32> round;
    bit<32> map_version;
    bit<32> tag;
    bit<32> packets;
    bit<32> members;
}

struct home_t {
    bit<1> is_hot;
    bit<8> register_number;
    bit<32> cell;
    bit<8> pass;
}

#define HOME_FIELD(i) home_t home_##i;
struct keyed_work_t {
    table_t table;
    bit<1> is_known;
    bit<1> is_worker;
    bit<32> worker_cell;
    bit<32> first_number;
    bit<32> worker_bit;
    bit<8> pass;      /* how often the packet has been here before */
    bit<8> last_pass; /* that it needs */
    bit<8> verdict;
    bit<2> egress;
    bit<1> is_complete;
    FOR_EACH_PAIR(HOME_FIELD)
}

#include "keyed_cells.p4"

/* Where each key's sum is. A table is looked up once in a pass, so each place of a packet has one of its own. */
#define HOME_TABLE(i) \
    action hot_##i(bit<8> register_number, bit<32> cell) { \
        w.home_##i.is_hot = 1; \
        w.home_##i.register_number = register_number; \
        w.home_##i.cell = cell; \
    } \
    action cold_##i() { \
        w.home_##i.is_hot = 0; \
        w.home_##i.register_number = 0xff; \
        w.home_##i.cell = 0; \
    } \
    table homes_##i { \
        key = { \
            w.table.index: exact; \
            hdr.keys[i].high: exact; \
            hdr.keys[i].low: exact; \
        } \
        actions = { hot_##i; cold_##i; } \
        const default_action = cold_##i(); \
        size = KEYS; \
    }
#define FIND_HOME(i) \
    if (hdr.keys[i].isValid()) { \
        homes_##i.apply(); \
        if (w.home_##i.is_hot == 0) { \
            are_hot = false; \
        } \
    } else { \
        cold_##i(); \
    }
/* A pair behind another one of its register has a later pass. */
#define BEHIND(i, j) \
    if (w.home_##i.is_hot == 1 && w.home_##i.register_number == w.home_##j.register_number) { \
        w.home_##i.pass = w.home_##i.pass + 1; \
    }
#define NO_PASS(i) w.home_##i.pass = 0;
#define LATER(i) \
    if (w.home_##i.pass > w.last_pass) { \
        w.last_pass = w.home_##i.pass; \
    }
control Homes(in keyed_headers_t hdr, inout keyed_work_t w, out bool are_hot) {
    FOR_EACH_PAIR(HOME_TABLE)
    apply {
        are_hot = true;
        FOR_EACH_PAIR(FIND_HOME)
        FOR_EACH_PAIR(NO_PASS)
        BEHIND(1, 0)
        BEHIND(2, 0) BEHIND(2, 1)
        BEHIND(3, 0) BEHIND(3, 1) BEHIND(3, 2)
        BEHIND(4, 0) BEHIND(4, 1) BEHIND(4, 2) BEHIND(4, 3)
        BEHIND(5, 0) BEHIND(5, 1) BEHIND(5, 2) BEHIND(5, 3) BEHIND(5, 4)
        BEHIND(6, 0) BEHIND(6, 1) BEHIND(6, 2) BEHIND(6, 3) BEHIND(6, 4) BEHIND(6, 5)
        BEHIND(7, 0) BEHIND(7, 1) BEHIND(7, 2) BEHIND(7, 3) BEHIND(7, 4) BEHIND(7, 5) BEHIND(7, 6)
        w.last_pass = 0;
        FOR_EACH_PAIR(LATER)
    }
}

/* The one pair that a register gets in this pass, if there is one. */
#define CHOOSE(i, r) \
    if (w.home_##i.is_hot == 1 && w.home_##i.register_number == r && w.home_##i.pass == w.pass) { \
        has_pair = true; \
        cell = w.home_##i.cell; \
        value = SWAPPED(hdr.values[i].value); \
    }
#define DECLARE_REGISTER(r) SumCell() register_##r;
#define ACCESS_REGISTER(r) \
    has_pair = false; \
    FOR_EACH_PAIR_OF(CHOOSE, r) \
    if (has_pair) { \
        register_##r.apply(cell, w.table.tag, value); \
    }
control Registers(in keyed_headers_t hdr, in keyed_work_t w) {
    FOR_EACH_REGISTER(DECLARE_REGISTER)
    bool has_pair;
    bit<32> cell = 0;
    bit<32> value = 0;
    apply {
        FOR_EACH_REGISTER(ACCESS_REGISTER)
    }
}

/* Tables and workers, as the control plane says. A worker's place says where its address is right. */
control Gate(in keyed_headers_t hdr, inout keyed_work_t w) {
    action installed(bit<16> index, bit<32> round, bit<32> map_version, bit<32> tag, bit<32> packets,
                     bit<32> members) {
        w.is_known = 1;
        w.table.index = index;
        w.table.round = round;
        w.table.map_version = map_version;
        w.table.tag = tag;
        w.table.packets = packets;
        w.table.members = members;
    }
    action unknown() {
        w.is_known = 0;
    }
    table tables {
        key = {
            hdr.wiresum.job: exact;
            hdr.wiresum.job_key: exact;
            hdr.wiresum.node: exact;
            hdr.wiresum.sub_model: exact;
        }
        actions = { installed; unknown; }
        const default_action = unknown();
        size = TABLES;
    }

    action member(bit<32> cell, bit<32> first_number, bit<32> worker_bit) {
        w.is_worker = 1;
        w.worker_cell = cell;
        w.first_number = first_number;
        w.worker_bit = worker_bit;
    }
    action stranger() {
        w.is_worker = 0;
    }
    table workers {
        key = {
            w.table.index: exact;
            hdr.wiresum.contributor: exact;
            hdr.ipv4.source: exact;
            hdr.udp.source: exact;
        }
        actions = { member; stranger; }
        const default_action = stranger();
        size = WORKERS;
    }

    apply {
        w.is_worker = 0;
        tables.apply();
        if (w.is_known == 1) {
            workers.apply();
        }
    }
}

control Keyed(inout keyed_headers_t hdr, inout keyed_work_t w) {
    KeyedForm() form;
    KeyedCheck() check;
    Gate() gate;
    Homes() homes;
    NumberCell() numbers;
    Registers() registers;
    CountCell32() missing;
    MarkCell32() done;
    Acknowledge() acknowledge;
    bool is_good;
    bool is_sound;
    bool are_hot;
    bool can_be_taken;
    bit<32> number;
    bit<32> number_cell;
    bit<32> number_bit;
    bit<32> change;
    bit<32> held;
    bit<1> was_seen;
    bit<1> is_end;

    action end_with(bit<8> verdict, bit<2> egress) {
        w.verdict = verdict;
        w.egress = egress;
    }

    apply {
        w.is_complete = 0;
        is_end = 0;
        number = hdr.wiresum.fragment;
        if (hdr.wiresum.kind == WIRESUM_ROW_KIND_END) {
            is_end = 1;
            number = hdr.rows.count;
        }
        form.apply(hdr, is_good);
        check.apply(hdr, is_sound);
        gate.apply(hdr, w);
        homes.apply(hdr, w, are_hot);
        if (!is_good) {
            end_with(VERDICT_MALFORMED, KEYED_DROP);
        } else if (w.is_known == 0) {
            end_with(VERDICT_FOREIGN, KEYED_DROP);
        } else if (w.is_worker == 0) {
            end_with(VERDICT_BAD_CONTRIBUTOR, KEYED_DROP);
        } else if (!is_sound) {
            end_with(VERDICT_DAMAGED, KEYED_DROP);
        } else if (hdr.wiresum.round < w.table.round) {
            end_with(VERDICT_STALE, KEYED_BACK);
        } else if (hdr.wiresum.round > w.table.round || hdr.rows.stamp > w.table.map_version) {
            end_with(VERDICT_EARLY, KEYED_DROP);
        } else if (number > w.table.packets || (is_end == 0 && number == w.table.packets)
                   || (is_end == 0 && hdr.wiresum.flags & (WIRESUM_FLAG_LITTLE_ENDIAN | WIRESUM_FLAG_FLOAT)
                           != WIRESUM_FLAG_LITTLE_ENDIAN)) {
            end_with(VERDICT_WRONG, KEYED_STATION);
        } else {
            can_be_taken = are_hot && hdr.rows.stamp == w.table.map_version && w.last_pass <= RECIRCULATIONS;
            was_seen = 0;
            if (w.pass == 0) {
                number_cell = w.first_number + (number >> 5);
                number_bit = 32w1 << (bit<8>)(number & 31);
                numbers.apply(can_be_taken, number_cell, w.table.tag, number_bit, was_seen);
            }
            if (was_seen == 1) {
                end_with(VERDICT_DUPLICATE, KEYED_BACK);
            } else if (!can_be_taken) {
                end_with(VERDICT_WRONG, KEYED_STATION);
            } else {
                if (is_end == 0) {
                    registers.apply(hdr, w);
                }
                if (w.pass < w.last_pass) {
                    end_with(VERDICT_ADDED, KEYED_AGAIN);
                } else {
                    change = is_end == 1 ? number : 0xffffffff;
                    missing.apply(w.worker_cell, w.table.tag, change, held);
                    if (held == 0) {
                        done.apply((bit<32>)w.table.index, w.table.tag, w.worker_bit, held);
                        if (held == w.table.members) {
                            w.is_complete = 1;
                        }
                    }
                    end_with(VERDICT_ADDED, KEYED_BACK);
                }
            }
        }
        if (w.egress == KEYED_BACK) {
            acknowledge.apply(hdr);
        }
    }
}

#endif
