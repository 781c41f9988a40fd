// SPDX-License-Identifier: Apache-2.0
/* Register cells of the program that sums pairs: a tag above, 32 bits below. What has another tag counts as zero. */
#ifndef WIRESUM_KEYED_CELLS_P4
#define WIRESUM_KEYED_CELLS_P4

#define HELD(cell, tag) ((cell)[63:32] == tag ? (cell)[31:0] : 0)

/* A number's bit, set if the packet can be taken. */
control NumberCell(in bool marks, in bit<32> index, in bit<32> tag, in bit<32> mark, out bit<1> was_seen) {
    register<bit<64>, bit<32>>(NUMBERS) cells;
    bit<64> cell;
    bit<32> held;
    apply {
        cells.read(cell, index);
        held = HELD(cell, tag);
        was_seen = held & mark != 0 ? 1w1 : 0;
        if (marks) {
            held = held | mark;
        }
        cell = tag ++ held;
        cells.write(index, cell);
    }
}

/* A count. `held`: with the change. */
control CountCell32(in bit<32> index, in bit<32> tag, in bit<32> change, out bit<32> held) {
    register<bit<64>, bit<32>>(WORKERS) cells;
    bit<64> cell;
    apply {
        cells.read(cell, index);
        held = HELD(cell, tag) + change;
        cell = tag ++ held;
        cells.write(index, cell);
    }
}

/* A sum, which nothing in the packet depends on. */
control SumCell(in bit<32> index, in bit<32> tag, in bit<32> change) {
    register<bit<64>, bit<32>>(CELLS) cells;
    bit<64> cell;
    bit<32> held;
    apply {
        cells.read(cell, index);
        held = HELD(cell, tag) + change;
        cell = tag ++ held;
        cells.write(index, cell);
    }
}

/* Bits that are set one by one. */
control MarkCell32(in bit<32> index, in bit<32> tag, in bit<32> mark, out bit<32> held) {
    register<bit<64>, bit<32>>(TABLES) cells;
    bit<64> cell;
    apply {
        cells.read(cell, index);
        held = HELD(cell, tag) | mark;
        cell = tag ++ held;
        cells.write(index, cell);
    }
}

#endif
