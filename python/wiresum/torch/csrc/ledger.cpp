#include "ledger.h"

#include <deque>

namespace wiresum {

namespace {

struct Registry {
    std::mutex mutex;
    std::deque<std::shared_ptr<Ledger>> ledgers;
    uint64_t opened = 0;
};

Registry &registry() {
    // Never destroyed: groups may outlive static destruction.
    static auto *instance = new Registry;
    return *instance;
}

} // namespace

std::shared_ptr<Ledger> Ledger::open(int rank, int size, std::string no_network) {
    Registry &books = registry();
    std::lock_guard lock(books.mutex);
    std::shared_ptr<Ledger> ledger(new Ledger(books.opened++, rank, size, std::move(no_network)));
    books.ledgers.push_back(ledger);
    if (books.ledgers.size() > kMaxLedgers) {
        books.ledgers.pop_front();
    }
    return ledger;
}

std::vector<std::shared_ptr<Ledger>> Ledger::all() {
    Registry &books = registry();
    std::lock_guard lock(books.mutex);
    return {books.ledgers.begin(), books.ledgers.end()};
}

void Ledger::count(const RowKey &key, const Amount &amount) {
    std::lock_guard lock(mutex_);
    RowCount &row = rows_[key];
    row.collectives += 1;
    row.total.elements += amount.elements;
    row.total.bytes += amount.bytes;
    row.total.rows += amount.rows;
    row.total.rows_of_all += amount.rows_of_all;
}

void Ledger::note_error(const std::string &message) {
    std::lock_guard lock(mutex_);
    if (errors_.size() < kMaxErrors) {
        errors_.push_back(message);
    }
}

void Ledger::set_group(const std::string &name) {
    std::lock_guard lock(mutex_);
    group_ = name;
}

std::vector<std::pair<RowKey, RowCount>> Ledger::rows() const {
    std::lock_guard lock(mutex_);
    return {rows_.begin(), rows_.end()};
}

std::vector<std::string> Ledger::errors() const {
    std::lock_guard lock(mutex_);
    return errors_;
}

std::string Ledger::group() const {
    std::lock_guard lock(mutex_);
    return group_;
}

} // namespace wiresum
