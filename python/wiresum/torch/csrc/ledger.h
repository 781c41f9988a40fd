// What became of every collective of one group: the numbers behind `wiresum.torch.report()`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "reason.h"

namespace wiresum {

// The kind of collective that a row counts.
struct RowKey {
    std::string collective;   // as in torch.distributed: "all_reduce"
    std::string element_type; // "float32"; empty where there is no tensor
    std::string operation;    // "SUM"; empty where nothing is reduced
    Reason reason;

    bool operator<(const RowKey &other) const { return tie() < other.tie(); }

  private:
    std::tuple<const std::string &, const std::string &, const std::string &, Reason> tie() const {
        return {collective, element_type, operation, reason};
    }
};

// How much one collective moved on this rank.
struct Amount {
    uint64_t elements = 0;
    uint64_t bytes = 0;
    // Rows of sparse tensors that this rank passed, and those that any rank passed, where they are
    // known.
    uint64_t rows = 0;
    uint64_t rows_of_all = 0;
};

// How much there was of a kind.
struct RowCount {
    uint64_t collectives = 0;
    Amount total;
};

// Counters of one group. Outlives the group, so that a report can be made at the end of the run. Thread-safe.
class Ledger {
  public:
    // Groups that are remembered; the oldest are forgotten first.
    static constexpr size_t kMaxLedgers = 1024;
    // Errors that are kept in words; later ones are only counted.
    static constexpr size_t kMaxErrors = 8;

    // Opens the books of a group.
    static std::shared_ptr<Ledger> open(int rank, int size, std::string no_network);
    // Those of every group of this process, oldest first.
    static std::vector<std::shared_ptr<Ledger>> all();

    void count(const RowKey &key, const Amount &amount);
    void note_error(const std::string &message);
    void set_group(const std::string &name);

    std::vector<std::pair<RowKey, RowCount>> rows() const;
    std::vector<std::string> errors() const;
    std::string group() const;

    // Unique in this process.
    const uint64_t id;
    const int rank;
    const int size;
    // Why the group sums nothing in the network; empty if it does.
    const std::string no_network;

  private:
    Ledger(uint64_t id, int rank, int size, std::string no_network)
        : id(id), rank(rank), size(size), no_network(std::move(no_network)) {}

    mutable std::mutex mutex_;
    std::map<RowKey, RowCount> rows_;
    std::vector<std::string> errors_;
    std::string group_;
};

} // namespace wiresum
