#include "rows.h"

#include <algorithm>
#include <iterator>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <c10/util/Exception.h>

namespace wiresum {

namespace {

constexpr int kGroupBits = 7;
constexpr uint8_t kMore = 1 << kGroupBits;
constexpr int kLastShift = 63 - 63 % kGroupBits;

std::vector<uint8_t> gaps_of(const RowSet &rows) {
    std::vector<uint8_t> bytes;
    bytes.reserve(2 * rows.size());
    int64_t next = 0;
    for (const int64_t row : rows) {
        auto gap = static_cast<uint64_t>(row - next);
        for (; gap >= kMore; gap >>= kGroupBits) {
            bytes.push_back(static_cast<uint8_t>(gap) | kMore);
        }
        bytes.push_back(static_cast<uint8_t>(gap));
        next = row + 1;
    }
    return bytes;
}

RowSet rows_of_gaps(const uint8_t *bytes, size_t length, int64_t limit) {
    RowSet rows;
    uint64_t gap = 0;
    int shift = 0;
    int64_t next = 0;
    for (size_t index = 0; index < length; ++index) {
        TORCH_CHECK(shift < kLastShift, "wiresum: a rank's set of rows is damaged");
        gap |= static_cast<uint64_t>(bytes[index] & (kMore - 1)) << shift;
        shift += kGroupBits;
        if ((bytes[index] & kMore) == 0) {
            TORCH_CHECK(gap < static_cast<uint64_t>(limit - next),
                        "wiresum: a rank's set of rows is damaged");
            rows.push_back(next + static_cast<int64_t>(gap));
            next = rows.back() + 1;
            gap = 0;
            shift = 0;
        }
    }
    return rows;
}

std::vector<uint8_t> bitmap_of(const RowSet &rows, int64_t limit) {
    std::vector<uint8_t> bytes((limit + 7) / 8);
    for (const int64_t row : rows) {
        bytes[row / 8] |= 1 << row % 8;
    }
    return bytes;
}

RowSet rows_of_bitmap(const uint8_t *bytes, size_t length, int64_t limit) {
    RowSet rows;
    for (int64_t row = 0; row < std::min(limit, static_cast<int64_t>(8 * length)); ++row) {
        if ((bytes[row / 8] >> row % 8 & 1) != 0) {
            rows.push_back(row);
        }
    }
    return rows;
}

} // namespace

EncodedRows encode(const RowSet &rows, int64_t limit) {
    std::vector<uint8_t> gaps = gaps_of(rows);
    if (static_cast<int64_t>(gaps.size()) <= (limit + 7) / 8) {
        return {RowForm::Gaps, std::move(gaps)};
    }
    return {RowForm::Bitmap, bitmap_of(rows, limit)};
}

RowSet decode(RowForm form, const uint8_t *bytes, size_t length, int64_t count, int64_t limit) {
    RowSet rows =
        form == RowForm::Bitmap ? rows_of_bitmap(bytes, length, limit) : rows_of_gaps(bytes, length, limit);
    TORCH_CHECK(static_cast<int64_t>(rows.size()) == count, "wiresum: a rank's set of rows is damaged");
    return rows;
}

// Pair by pair, as each merge of two halves reads every row once.
RowSet united(std::vector<RowSet> sets) {
    while (sets.size() > 1) {
        std::vector<RowSet> halves((sets.size() + 1) / 2);
        for (size_t index = 0; index + 1 < sets.size(); index += 2) {
            std::set_union(sets[index].begin(), sets[index].end(), sets[index + 1].begin(),
                           sets[index + 1].end(), std::back_inserter(halves[index / 2]));
        }
        if (sets.size() % 2 != 0) {
            halves.back() = std::move(sets.back());
        }
        sets = std::move(halves);
    }
    return sets.empty() ? RowSet() : std::move(sets.front());
}

void add_rows(at::Tensor &total, const RowSet &all, const at::Tensor &values, const RowSet &rows) {
    const int64_t width = total.size(1);
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, total.scalar_type(), "wiresum: add_rows", [&] {
        auto *sums = total.mutable_data_ptr<scalar_t>();
        const auto *terms = values.const_data_ptr<scalar_t>();
        auto place = all.begin();
        for (const int64_t row : rows) {
            place = std::lower_bound(place, all.end(), row);
            scalar_t *sum = sums + (place - all.begin()) * width;
            for (int64_t element = 0; element < width; ++element) {
                sum[element] += *terms++;
            }
        }
    });
}

} // namespace wiresum
