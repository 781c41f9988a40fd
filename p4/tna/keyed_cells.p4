// SPDX-License-Identifier: Apache-2.0
/* Register cells of the program that sums pairs, as the stateful ALUs of T2NA have them: a tag and 32 bits. What has another tag
 * counts as zero. An ALU compares the tag, and changes the other half. */
#ifndef WIRESUM_KEYED_CELLS_P4
#define WIRESUM_KEYED_CELLS_P4

struct tagged_t {
    bit<32> tag;
    bit<32> held;
}

/* A number's bit, set if the packet can be taken. */
control NumberCell(in bool marks, in bit<32> index, in bit<32> tag, in bit<32> mark, out bit<1> was_seen) {
    Register<tagged_t, bit<32>>(NUMBERS) cells;
    RegisterAction<tagged_t, bit<32>, bit<32>>(cells) set = {
        void apply(inout tagged_t cell, out bit<32> before) {
            before = 0;
            if (cell.tag == tag) {
                before = cell.held;
                cell.held = cell.held | mark;
            } else {
                cell.held = mark;
            }
            cell.tag = tag;
        }
    };
    RegisterAction<tagged_t, bit<32>, bit<32>>(cells) read = {
        void apply(inout tagged_t cell, out bit<32> before) {
            before = 0;
            if (cell.tag == tag) {
                before = cell.held;
            } else {
                cell.held = 0;
            }
            cell.tag = tag;
        }
    };
    bit<32> before;
    apply {
        if (marks) {
            before = set.execute(index);
        } else {
            before = read.execute(index);
        }
        was_seen = before & mark != 0 ? 1w1 : 0;
    }
}

/* A count. `held`: with the change. */
control CountCell32(in bit<32> index, in bit<32> tag, in bit<32> change, out bit<32> held) {
    Register<tagged_t, bit<32>>(WORKERS) cells;
    RegisterAction<tagged_t, bit<32>, bit<32>>(cells) add = {
        void apply(inout tagged_t cell, out bit<32> after) {
            if (cell.tag == tag) {
                cell.held = cell.held + change;
            } else {
                cell.held = change;
            }
            cell.tag = tag;
            after = cell.held;
        }
    };
    apply {
        held = add.execute(index);
    }
}

/* A sum, which nothing in the packet depends on. */
control SumCell(in bit<32> index, in bit<32> tag, in bit<32> change) {
    Register<tagged_t, bit<32>>(CELLS) cells;
    RegisterAction<tagged_t, bit<32>, bit<32>>(cells) add = {
        void apply(inout tagged_t cell) {
            if (cell.tag == tag) {
                cell.held = cell.held + change;
            } else {
                cell.held = change;
            }
            cell.tag = tag;
        }
    };
    apply {
        add.execute(index);
    }
}

/* Bits that are set one by one. */
control MarkCell32(in bit<32> index, in bit<32> tag, in bit<32> mark, out bit<32> held) {
    Register<tagged_t, bit<32>>(TABLES) cells;
    RegisterAction<tagged_t, bit<32>, bit<32>>(cells) set = {
        void apply(inout tagged_t cell, out bit<32> after) {
            if (cell.tag == tag) {
                cell.held = cell.held | mark;
            } else {
                cell.held = mark;
            }
            cell.tag = tag;
            after = cell.held;
        }
    };
    apply {
        held = set.execute(index);
    }
}

#endif
