// SPDX-License-Identifier: BSD-2-Clause
#include "core/time_text.h"

#include <algorithm>
#include <array>

namespace durable {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

class Reader {
public:
    explicit Reader(std::string_view text) noexcept : rest_(text) {}

    bool is_done() const noexcept { return rest_.empty(); }
    char peek() const noexcept { return rest_.empty() ? '\0' : rest_[0]; }

    bool take(std::string_view any_of) noexcept {
        if (rest_.empty() || any_of.find(rest_[0]) == std::string_view::npos) return false;
        rest_.remove_prefix(1);
        return true;
    }

    bool take_word(std::string_view word) noexcept {
        if (rest_.substr(0, word.size()) != word) return false;
        rest_.remove_prefix(word.size());
        return true;
    }

    std::string_view take_text(std::size_t count) noexcept {
        const std::string_view text = rest_.substr(0, count);
        rest_.remove_prefix(text.size());
        return text;
    }

    // Exactly `count` digits, between the limits; -1 otherwise.
    int number(std::size_t count, int least, int most) noexcept {
        if (rest_.size() < count) return -1;
        int value = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (rest_[i] < '0' || rest_[i] > '9') return -1;
            value = value * 10 + (rest_[i] - '0');
        }
        rest_.remove_prefix(count);
        return value >= least && value <= most ? value : -1;
    }

    bool skip_digits() noexcept {
        const std::size_t end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
        rest_.remove_prefix(end);
        return end > 0;
    }

private:
    std::string_view rest_;
};

bool is_leap_year(int year) noexcept { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in_month(int year, int month) noexcept {
    if (month == 2) return is_leap_year(year) ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// Days since 1970-01-01 of a proleptic Gregorian date (Howard Hinnant, days_from_civil).
std::int64_t days_from_civil(int year, int month, int day) noexcept {
    const std::int64_t shifted = month <= 2 ? year - 1 : year;
    const std::int64_t era = (shifted >= 0 ? shifted : shifted - 399) / 400;
    const std::int64_t year_of_era = shifted - era * 400;
    const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

// `hh:mm[:ss[.f]]`; seconds of the day, or -1. 24:00 is the end of the day.
std::int64_t read_clock(Reader& reader) noexcept {
    const int hour = reader.number(2, 0, 24);
    if (hour < 0 || !reader.take(":")) return -1;
    const int minute = reader.number(2, 0, 59);
    if (minute < 0) return -1;
    int second = 0;
    if (reader.take(":")) {
        second = reader.number(2, 0, 60);
        if (second < 0) return -1;
        if (reader.take(".,") && !reader.skip_digits()) return -1;
    }
    if (hour == 24 && (minute > 0 || second > 0)) return -1;
    return (hour * 60 + minute) * 60 + second;
}

// `Z`, `±hh`, `±hhmm` or `±hh:mm`, or nothing; false when it is something else.
bool read_offset(Reader& reader, std::int64_t& offset_s) noexcept {
    offset_s = 0;
    if (reader.is_done() || reader.take("Zz")) return true;
    const bool is_west = reader.peek() == '-';
    if (!reader.take("+-")) return false;
    const int hours = reader.number(2, 0, 23);
    if (hours < 0) return false;
    int minutes = 0;
    if (!reader.is_done()) {
        reader.take(":");
        minutes = reader.number(2, 0, 59);
        if (minutes < 0) return false;
    }
    offset_s = (hours * 60 + minutes) * 60 * (is_west ? -1 : 1);
    return true;
}

}  // namespace

std::optional<std::int64_t> parse_iso_time(std::string_view text) noexcept {
    Reader reader(text);
    const int year = reader.number(4, 0, 9999);
    if (year < 0 || !reader.take("-")) return std::nullopt;
    const int month = reader.number(2, 1, 12);
    if (month < 0 || !reader.take("-")) return std::nullopt;
    const int day = reader.number(2, 1, days_in_month(year, month));
    if (day < 0) return std::nullopt;
    const std::int64_t midnight = days_from_civil(year, month, day) * 86400;
    if (reader.is_done()) return midnight;
    if (!reader.take("Tt ")) return std::nullopt;
    const std::int64_t clock = read_clock(reader);
    std::int64_t offset_s = 0;
    if (clock < 0 || !read_offset(reader, offset_s) || !reader.is_done()) return std::nullopt;
    return midnight + clock - offset_s;
}

std::optional<std::int64_t> parse_http_date(std::string_view text) noexcept {
    Reader reader(text);
    reader.take_text(3);
    if (!reader.take_word(", ")) return std::nullopt;
    const int day = reader.number(2, 1, 31);
    if (day < 0 || !reader.take(" ")) return std::nullopt;
    const auto found = std::find(kMonths.begin(), kMonths.end(), reader.take_text(3));
    if (found == kMonths.end() || !reader.take(" ")) return std::nullopt;
    const int month = static_cast<int>(found - kMonths.begin()) + 1;
    const int year = reader.number(4, 0, 9999);
    if (year < 0 || day > days_in_month(year, month) || !reader.take(" ")) return std::nullopt;
    const std::int64_t clock = read_clock(reader);
    if (clock < 0 || !reader.take_word(" GMT") || !reader.is_done()) return std::nullopt;
    return days_from_civil(year, month, day) * 86400 + clock;
}

std::optional<std::int64_t> parse_retry_after(std::string_view text, std::int64_t now_s) noexcept {
    constexpr std::int64_t kMost = 1000000000;
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
    if (text.find_first_not_of("0123456789") == std::string_view::npos) {
        std::int64_t seconds = 0;
        for (const char digit : text) seconds = std::min(seconds * 10 + (digit - '0'), kMost);
        return seconds;
    }
    const std::optional<std::int64_t> at = parse_http_date(text);
    return at ? std::optional(std::max<std::int64_t>(0, *at - now_s)) : std::nullopt;
}

}  // namespace durable
