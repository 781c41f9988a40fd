#include "ledger.h"

namespace wiresum {

void Ledger::count(const RowKey &key, uint64_t elements, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    RowCount &row = rows_[key];
    row.collectives += 1;
    row.elements += elements;
    row.bytes += bytes;
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
