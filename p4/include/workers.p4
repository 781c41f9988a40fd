// SPDX-License-Identifier: Apache-2.0
/* From workers to bits and back, by tables, as pipelines shift by constants alone. */
#ifndef WIRESUM_WORKERS_P4
#define WIRESUM_WORKERS_P4

#include "repetition.p4"
#include "work.p4"

/* The set of one worker, among those of its cohort. */
#define BIT_OF_WORKER(i) i : set(64w1 << i);
control OneWorker(in bit<8> worker, out contributors_t workers) {
    member_t number;

    action set(contributors_t bits) {
        workers = bits;
    }

    table bits {
        key = { number: exact; }
        actions = { set; }
        const default_action = set(0);
        const entries = {
            FOR_EACH_WORKER(BIT_OF_WORKER)
        }
    }

    apply {
        number = worker[5:0];
        bits.apply();
    }
}

/* The number of the lowest one of a set in its cohort; 64 if it is empty, as the reference has it. */
#define WORKER_OF_BIT(i) (64w1 << i) &&& ((64w1 << i) | ((64w1 << i) - 1)) : set(i);
control LowestWorker(in contributors_t workers, out bit<8> worker) {
    action set(bit<8> number) {
        worker = number;
    }

    table numbers {
        key = { workers: ternary; }
        actions = { set; }
        const default_action = set(64);
        const entries = {
            FOR_EACH_WORKER(WORKER_OF_BIT)
        }
    }

    apply {
        numbers.apply();
    }
}

#endif
